"""`mechtrace recover`, `diagnose`, `report` and `calibrate`: what happened, and how surely."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .cli_fit import prepared
from .cli_options import (
    Active,
    Bias,
    BlockNames,
    Causal,
    Data,
    Gap,
    Json,
    KnownStretches,
    Level,
    Method,
    Missing,
    Model,
    Pool,
    Quiet,
    SeriesColumn,
    TableOut,
    TimeColumn,
    check_targets,
    named,
    sayer,
    write_json,
)
from .errors import DataError

if TYPE_CHECKING:
    from .estimator import Trace
    from .recover.trajectory import Trajectory
    from .series import Panel

#: Recordings that are spoken of one by one.
SHOWN = 10


def recover(
    model: Model,
    data: Data,
    out: TableOut,
    time: TimeColumn = None,
    series: SeriesColumn = None,
    missing: Missing = None,
    gap: Gap = None,
    method: Method = "state-space",
    causal: Causal = False,
    pool: Pool = False,
    active: Active = "",
    blocks: BlockNames = "",
    known: KnownStretches = None,
    bias: Bias = False,
    level: Level = 0.9,
    report: Annotated[Path | None, typer.Option(help="Also write an HTML report.")] = None,
    edges: Annotated[Path | None, typer.Option(help="Also write the edges of W(t).")] = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """How much of each mechanism is at work at each step of new recordings.

    The table has a row per step: the share of each regime, its interval (REGIME_lower and
    REGIME_upper), the residual (1 is usual) and a flag (warm-up, missing, unexplained, disagree).

    \b
    Examples:
      mechtrace recover gait.mechtrace new.csv --out alpha.csv --report alpha.html
      mechtrace recover gait.mechtrace 'new/*.csv' --out alpha.parquet --json -
      mechtrace recover gait.mechtrace new.csv --known 0:2=walk --level 0.95 -o alpha.csv
    """
    from dataclasses import asdict

    from .curves import write_curves
    from .writers import check_table, write_frames

    check_targets([out, report, edges, json_file], [model, *data])
    for table in (out, edges):
        if table is not None:
            check_table(table)
    if report is not None:
        _check_report_possible()
    say = sayer(quiet)
    trace, panel = _model_and_data(
        model, data, say, missing=missing, gap=gap, time=time, series=series
    )
    paths = _paths(
        trace, panel, method=method, causal=causal, pool=pool, level=level, active=active,
        blocks=blocks, bias=bias, known=known,
    )  # fmt: skip
    write_curves(paths, out)
    if edges is not None:
        mechanisms = trace.mechanisms(panel)
        write_frames({path.name: mechanisms.edges(path) for path in paths}, edges)
    verdicts = {path.name: trace.diagnose(path).verdict for path in paths[:SHOWN]}
    for path in paths[:SHOWN]:
        say(f"{path}; verdict: {verdicts[path.name]}")
    if len(paths) > SHOWN:
        say(f"... and {len(paths) - SHOWN} more recordings")
    if set(verdicts.values()) - {"trust"}:
        say("The reasons for the verdict: mechtrace diagnose, or the report.")
    say(f"{out}: {sum(map(len, paths)):,} rows")
    if report is not None:
        _write_report(trace, paths, panel, report, say)
    events = {path.name: [asdict(event) for event in path.events(minimum=2)] for path in paths}
    summary = {path.name: str(path) for path in paths}
    write_json(json_file, {"file": str(out), "events": events, "summary": summary})


def diagnose(
    model: Model,
    data: Data,
    time: TimeColumn = None,
    series: SeriesColumn = None,
    missing: Missing = None,
    gap: Gap = None,
    method: Method = "state-space",
    causal: Causal = False,
    pool: Pool = False,
    active: Active = "",
    blocks: BlockNames = "",
    known: KnownStretches = None,
    bias: Bias = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 1 where a curve is not to be trusted.")
    ] = False,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Can the recovered curves be trusted? Findings, what they mean and what to do.

    \b
    Examples:
      mechtrace diagnose gait.mechtrace new.csv
      mechtrace diagnose gait.mechtrace new.csv --strict --quiet && echo good
    """
    from .progress import watched

    check_targets([json_file], [model, *data])
    say = sayer(quiet)
    trace, panel = _model_and_data(
        model, data, say, missing=missing, gap=gap, time=time, series=series
    )
    paths = _paths(
        trace, panel, method=method, causal=causal, pool=pool, active=active, blocks=blocks,
        bias=bias, known=known,
    )  # fmt: skip
    diagnoses = [trace.diagnose(path) for path in watched(paths, "diagnosing", quiet)]
    for diagnosis in diagnoses[:SHOWN]:
        say(str(diagnosis))
    verdicts = [diagnosis.verdict for diagnosis in diagnoses]
    if len(verdicts) > 1:
        counts = [f"{verdicts.count(v)} {v}" for v in ("trust", "caution", "do not trust")]
        say(f"{len(verdicts)} recordings: {', '.join(counts)}")
    write_json(json_file, {"diagnoses": [diagnosis.to_dict() for diagnosis in diagnoses]})
    if strict and "do not trust" in verdicts:
        raise typer.Exit(1)


def report(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path(
        "report.html"
    ),
    time: TimeColumn = None,
    series: SeriesColumn = None,
    missing: Missing = None,
    gap: Gap = None,
    method: Method = "state-space",
    causal: Causal = False,
    pool: Pool = False,
    active: Active = "",
    blocks: BlockNames = "",
    known: KnownStretches = None,
    bias: Bias = False,
    level: Level = 0.9,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Write one HTML file about new recordings: the answer, the picture, the evidence.

    \b
    Example:
      mechtrace report gait.mechtrace new.csv --out alpha.html
    """
    check_targets([out, json_file], [model, *data])
    _check_report_possible()
    say = sayer(quiet)
    trace, panel = _model_and_data(
        model, data, say, missing=missing, gap=gap, time=time, series=series
    )
    paths = _paths(
        trace, panel, method=method, causal=causal, pool=pool, level=level, active=active,
        blocks=blocks, bias=bias, known=known,
    )  # fmt: skip
    _write_report(trace, paths, panel, out, say)
    summary = {path.name: str(path) for path in paths}
    write_json(json_file, {"file": str(out), "summary": summary})


def calibrate(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A table written by recover.")],
    known: Annotated[list[str], typer.Option(help="FROM:TO=REGIME, where it is known.")],
    out: TableOut,
    how: Annotated[str, typer.Option(help="auto, two-point or matrix.")] = "auto",
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Correct the scale of recovered curves where the regime is known for some of the time.

    One correction serves the whole table. SERIES/FROM:TO=REGIME speaks of one recording,
    FROM..TO of dates, and walk:0.5,run:0.5 in place of a regime of a known mixture.

    \b
    Example:
      mechtrace calibrate alpha.csv --known 0:10=walk --known 90:99=run --out better.csv
    """
    from .curves import parse_known, read_curves, write_curves
    from .recover.known import calibrated
    from .writers import check_table

    check_targets([out, json_file], [table])
    check_table(out)
    paths = calibrated(read_curves(table), [parse_known(text) for text in known], how=how)
    write_curves(paths, out)
    used = paths[0].calibration
    sayer(quiet)(f"{out}: {len(paths)} recordings, corrected by {used} calibration")
    write_json(json_file, {"file": str(out), "how": used, "known": known})


def _model_and_data(
    model: Path, data: Sequence[Path], say: Any, **roles: Any
) -> tuple[Trace, Panel]:
    """A stored model and new recordings of its channels; how these were read is said."""
    from .estimator import load
    from .inputs import DATA_TYPES, read_inputs

    if model.name.lower().endswith(DATA_TYPES):
        fix = "name the model first, then the data"
        raise DataError("this is data, not a mechtrace file", where=str(model), fix=fix)
    trace = load(model)
    shape = trace.shape_
    size = "x".join(map(str, shape)) if len(shape) == 2 else None  # pictures as in training
    reading = read_inputs(data, channels=trace.channels_, labelled=False, size=size, **roles)
    say(reading.how)
    panel = prepared(reading.panel, **trace.facts_.get("preparation", {}))
    step = trace.facts_.get("step")
    if reading.said and reading.roles.get("time") is None and step not in (None, 1.0):
        what = f"no column is known to hold the time, and in training rows were {step:g} apart"
        raise DataError(what, where=reading.panel.source, fix="name it: --time COLUMN")
    return trace, panel


def _paths(
    trace: Trace, panel: Panel, *, active: str, known: list[str] | None, blocks: str = "",
    **request: Any,
) -> list[Trajectory]:  # fmt: skip
    from .curves import parse_known

    found = trace.recover(
        panel,
        active="auto" if active == "auto" else named(active),
        blocks=named(blocks),
        known=[parse_known(text) for text in known or []],
        **request,
    )
    return found if isinstance(found, list) else [found]


def _check_report_possible() -> None:
    """Refuse before any work is done."""
    from .reports import check_available

    check_available()


def _write_report(
    trace: Trace, paths: list[Trajectory], panel: Panel, out: Path, say: Any
) -> None:
    from .reports import report as write_report

    command = shlex.join(["mechtrace", *sys.argv[1:]])
    write_report(trace, paths, out, panel=panel, command=command)
    say(f"{out}: open it in a browser")
