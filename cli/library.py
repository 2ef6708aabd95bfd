"""``lowtide library``: sets of questions that a paper can cite; a method run over one of them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .output import emit, emit_found, emit_json, emit_table, note
from .parser import add_verb, seconds_or_none, whole_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..results.library.sets import LibraryEntry, LibrarySet
    from .parser import Subparsers

ACTIONS = ("list", "show", "run", "submit")


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb."""
    parser = add_verb(
        subparsers,
        "library",
        run,
        details="list: the sets, or the questions of one. show: a question and its record. run: a method\n"
        "over a set, as an experiment; the same command goes on after an interruption. submit: answers that\n"
        "are better than the best known become records, once they are verified. Exit status as of bench.",
        examples=[
            "lowtide library list",
            "lowtide library list peak/open",
            "lowtide library show peak-open-001",
            "lowtide library run peak/hard --method auto --time-limit 60 --threads 1",
            "lowtide library submit runs/library/2026.1/peak/hard --by 'A. Author'",
            "lowtide library submit plan.json --by 'A. Author' --certificate proof.json",
        ],
    )
    parser.add_argument("action", choices=ACTIONS, help="what to do")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="SET|ID|PATH",
        help="peak/hard, 2026.1/peak/hard; peak-hard-001; of submit: plans, folders of experiments",
    )
    parser.add_argument("--method", metavar="NAME", help="of run: see lowtide list methods")
    parser.add_argument(
        "--time-limit", type=seconds_or_none, default=60.0, metavar="SECONDS", help="of each run (default 60)"
    )
    parser.add_argument(
        "--threads", type=whole_number(1), default=1, metavar="N", help="of each run (default 1)"
    )
    parser.add_argument(
        "--seed", type=whole_number(0), default=0, metavar="N", help="of each run (default 0)"
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="of run: questions whose id or spec holds it"
    )
    parser.add_argument(
        "--jobs", type=whole_number(1), default=1, metavar="N", help="runs at a time (default 1)"
    )
    parser.add_argument("--out", metavar="DIR", help="folder of the experiment (default runs/library/SET)")
    parser.add_argument(
        "--best-known",
        metavar="FILE",
        help="of run and submit: what records are compared with, and written to (default: the package's)",
    )
    parser.add_argument("--by", metavar="NAME", help="of submit: who submits")
    parser.add_argument("--id", metavar="ID", help="of submit: the question that the plan answers")
    parser.add_argument("--certificate", metavar="FILE", help="of submit: the proof of the plan's bound")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Do what is asked."""
    from ..models.errors import UsageError
    from ..results.library.sets import find_entry, find_set

    if args.action == "list" and not args.names:
        return _list_sets(args)
    if args.action == "submit":
        return _submit(args)
    if len(args.names) != 1:
        expected = "the id of a question" if args.action == "show" else "the name of a set"
        found = f"{len(args.names)} names" if args.names else "no name"
        raise UsageError(f"library {args.action}: found {found}, expected {expected}; lowtide library list")
    if args.action == "list":
        return _list_entries(args, find_set(args.names[0]))
    if args.action == "show":
        return _show(args, *find_entry(args.names[0]))
    if args.method is None:
        raise UsageError("library run: found no --method, expected --method NAME; lowtide list methods")
    return _run(args, find_set(args.names[0]))


def _submit(args: argparse.Namespace) -> int:
    """Write what is better than the best known, or say why nothing is."""
    from ..models.errors import UsageError
    from ..results.audits.best_known import FOLDER
    from ..results.library.submission import submit

    if not args.names or not args.by or (args.certificate and (len(args.names) > 1 or not args.id)):
        expected = "paths and --by NAME; --certificate goes with --id ID and one path"
        raise UsageError(f"library submit: found {' '.join(args.names) or 'no path'}, expected {expected}")
    done = submit(
        args.names,
        args.by,
        question=args.id,
        certificate=args.certificate,
        best_known=args.best_known or FOLDER,
    )
    if not done.changes:
        raise UsageError(
            f"library submit: nothing is better than the best known: {'; '.join(done.not_better)}"
        )
    if args.json:
        emit_json(
            {
                "records": [change._asdict() for change in done.changes],
                "files": [str(file) for file in done.files],
                "not_better": done.not_better,
            }
        )
        return 0
    _emit_records(done.changes)
    for file in done.files:
        emit(f"wrote {file}")
    for words in done.not_better:
        note(f"not better: {words}")
    return 0


def _emit_records(records: Iterable[Any]) -> None:
    for record in records:
        old = "nothing" if record.old is None else f"{record.old:,}"
        emit(f"new record: {record.side} {old} -> {record.new:,}, {record.instance} ({record.method})")


def _list_sets(args: argparse.Namespace) -> int:
    from ..results.library.sets import sets

    rows = []
    for one_set in sets():
        ops = [entry.features["ops"] or 0 for entry in one_set.entries]
        rows.append(
            {
                "set": one_set.name,
                "questions": len(one_set.entries),
                "real": sum(entry.origin == "real" for entry in one_set.entries),
                "least ops": min(ops),
                "most ops": max(ops),
            }
        )
    if args.json:
        emit_json({"sets": rows})
    else:
        columns = [*rows[0]]
        emit_table(
            columns,
            [[f"{value:,}" if type(value) is int else str(value) for value in row.values()] for row in rows],
            title="sets",
            right=columns[1:],
        )
    return 0


def _list_entries(args: argparse.Namespace, one_set: LibrarySet) -> int:
    from ..results.audits.best_known import read_best_known
    from ..results.library.records import record_of

    known = read_best_known()
    rows = [record_of(one_set, entry, known) for entry in one_set.entries]
    if args.json:
        emit_json({"name": one_set.name, "rule": one_set.rule, "created": one_set.created, "questions": rows})
        return 0
    columns = ["id", "ops", "best", "bound", "gap", "status", "origin", "spec"]
    emit(one_set.rule)
    emit("")
    cells = [
        [_text(key, row["features"]["ops"] if key == "ops" else row[key]) for key in columns] for row in rows
    ]
    emit_table(columns, cells, title=one_set.name, right=("ops", "best", "bound", "gap"))
    return 0


def _show(args: argparse.Namespace, one_set: LibrarySet, entry: LibraryEntry) -> int:
    from ..results.audits.best_known import read_best_known
    from ..results.library.records import record_of

    about = record_of(one_set, entry, read_best_known())
    flat = {key: value for key, value in about.items() if key not in ("features", "history", "tried")}
    rows = [(k, _text(k, value)) for k, value in {**flat, **about["features"]}.items() if value is not None]
    rows += [("before", " ".join(_text(k, v) for k, v in past.items())) for past in about["history"]]
    rows += [
        ("tried", f"{method}: {', '.join(_text(method, value) for value in pair)}")
        for method, pair in about["tried"].items()
    ]
    emit_found(args.json, about, rows)
    return 0


def _text(key: str, value: object) -> str:
    if value is None:
        return "-"
    if key == "gap":
        return f"{100 * float(str(value)):.2f} %"
    return f"{value:,}" if type(value) is int else str(value)


def _run(args: argparse.Namespace, one_set: LibrarySet) -> int:
    """Carry out the experiment of a set, then print what it is worth."""
    from ..models.errors import UsageError
    from ..models.files import write_whole
    from ..results.audits.best_known import read_best_known
    from ..results.library.experiment import experiment_text
    from ..results.library.scores import mean_rank, new_records, scores
    from ..results.sweeps.folder import check_begin
    from ..results.sweeps.runspec import Limits
    from ..results.tables.table_text import json_values, plain
    from ..solvers.registry import find_method
    from . import bench, runs

    entries = [e for e in one_set.entries if args.only in e.id or args.only in e.spec]
    if not entries:
        raise UsageError(f"library run: found no question of {one_set.name} with {args.only!r}, expected one")
    find_method(one_set.problem, args.method)  # before a folder is made
    out = Path(args.out or Path("runs", "library", *one_set.name.split("/")))
    limits = Limits(seconds=args.time_limit, threads=args.threads)
    check_begin(out)
    bench.make_folder(out)
    file = out / "experiment.toml"
    write_whole(file, experiment_text(one_set, entries, args.method, limits, [args.seed]).encode())
    summary: dict[str, Any] = {}
    words = argparse.Namespace(
        experiment=str(file),
        out=str(out),
        jobs=args.jobs,
        quiet=args.quiet,
        json=args.json,
        retry=[],
        slurm=None,
        dry_run=False,
        prepare=False,
        resume=None,
        join=False,
        update_best_known=False,
        best_known=None,
    )
    status = bench.begin_experiment(words, show=lambda _, counts: summary.update(counts))
    if status == bench.STOPPED:
        return status
    measured = runs.read_runs(
        [str(out)], argparse.Namespace(best_known=args.best_known, where=[], virtual_best=False)
    )
    known = read_best_known(args.best_known)
    table, records = scores(measured), new_records(measured, known)
    rank, rivals = mean_rank(measured, known)
    if args.json:
        emit_json(
            {
                **summary,
                "set": one_set.name,
                "scores": json_values(table),
                "rank": rank,
                "rivals": rivals,
                "records": [r._asdict() for r in records],
            }
        )
        return status
    _, columns, rows = plain(table, None)
    emit_table(
        columns,
        rows,
        title=f"{one_set.name}, {len(entries)} of {len(one_set.entries)} questions",
        right=columns[1:],
    )
    emit(table.note)
    if rank is not None:
        emit(f"rank: {rank:.2f} on average (1 is best) among {rivals:.1f} methods with committed results")
    _emit_records(records)
    note(f"{out}: records, logs and plans; lowtide table {out} makes other tables of them")
    return status
