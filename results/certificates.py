"""Certificates beside results: the bound proved once more, checked as a reader would, and written."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..models.graph import Graph
    from ..models.problems.problem import Problem
    from ..models.result import Result

LIMIT = 200_000_000
"""Bytes of the largest certificate that is written if the user does not say."""


def with_certificate(
    result: Result,
    problem: Problem,
    path: str,
    *,
    threads: int | None = None,
    seed: int = 0,
    limit: int = LIMIT,
    time_limit: float | None = 60.0,
    memory_limit: int | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> Result:
    """Return the result with what became of its certificate, which is at `path` if all went well.

    The bound (of `memory-edges` that on the memory, with the edges that were found) is proved once more,
    which may take as long again as the time limit; what is written has been read back and confirmed by the
    checker. `Result.certificate` then has ``path`` (None if nothing was written),
    ``kind``, ``bytes``, ``checked`` and ``detail``, `Result.seconds` also ``certify`` and ``check``. A proof
    that does not hold makes the result ``FAILED``. Whatever else goes wrong, also a fault of the certifier or
    a disk that is full, is only told in ``detail``: the result stays what it was.
    """
    from ..instances import decode_certificate, encode_certificate, write_whole
    from ..models.errors import LowtideError
    from ..models.files import compress
    from ..models.problems import PROBLEMS
    from ..models.result import Status
    from ..models.verifier.certificate import verify_certificate
    from ..solvers.certify import certified
    from ..solvers.context import Context, available_cores

    def without(detail: str, kind: str | None = None, nbytes: int | None = None) -> Result:
        found = {"path": None, "kind": kind, "bytes": nbytes, "checked": False, "detail": detail}
        return replace(result, certificate=found, seconds=seconds)

    seconds = dict(result.seconds)
    started = time.perf_counter()
    if result.reason == "interrupted":  # Ctrl-C ends all of it, not only the search
        return without("interrupted")
    context = Context(
        problem=problem,
        time_limit=time_limit,
        memory_limit=memory_limit,
        threads=threads or available_cores(),
        seed=seed,
        progress=progress,
    )
    try:
        claim, certificate, missing = certified(problem, result, context)
        if claim is None:
            return without(missing)
        seconds["certify"] = time.perf_counter() - started
        if certificate is None:
            return without("none was found within the limits")
        progress(f"certificate: {certificate.proof.kind}, is written")
        text = encode_certificate(certificate, path)
        content = compress(text) if path.endswith(".gz") else text
        if len(content) > limit:
            return without(
                f"found {len(content):,} bytes, expected at most the limit {limit:,}",
                certificate.proof.kind,
                len(content),
            )
        progress(f"certificate: {certificate.proof.kind}, {len(content):,} bytes, is checked")
        started = time.perf_counter()
        graph: Graph = problem.graph  # type: ignore[attr-defined]
        verdict = verify_certificate(graph, decode_certificate(text, path))
        seconds["check"] = time.perf_counter() - started
        if verdict.valid:
            write_whole(path, content)
    except KeyboardInterrupt:
        return without("interrupted")
    except MemoryError:
        return without("out of memory")
    except LowtideError as error:
        return without(str(error))
    except Exception as error:  # a defect of the certifier must not lose what was found before
        logging.getLogger("lowtide").warning("the certifier of %s failed", problem.name, exc_info=True)
        return without(f"the certifier failed: {type(error).__name__}: {error}")
    if not verdict.valid:
        fault = f"the certificate does not hold: {verdict.witness}"
        return replace(without(fault, verdict.kind, len(content)), status=Status.FAILED, detail=fault)
    upper = PROBLEMS[certificate.problem].maximize
    less = certificate.bound > claim if upper else certificate.bound < claim
    detail = f"proves {certificate.bound:,} {certificate.unit} of the bound {claim:,}" if less else ""
    found = {"path": path, "kind": verdict.kind, "bytes": len(content), "checked": True, "detail": detail}
    return replace(result, certificate=found, seconds=seconds)
