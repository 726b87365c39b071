"""Commands that use a stored model: recover, report, diagnose, info; and calibrate."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import DataError, MissingDependency
from .options import (
    READING_NEW,
    RECOVERY,
    Data,
    Json,
    Model,
    Quiet,
    TableOut,
    check_targets,
    typed_command,
    with_options,
    write_json,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..diagnose.findings import Diagnosis
    from ..stage2.events import Event
    from ..stage2.trajectory import Trajectory
    from ..viz.report import Results

logger = logging.getLogger(__name__)

#: Recordings that are described one by one.
SHOWN = 10
#: Recordings that get a panel each in a figure; more are a row of colours each.
PANELS = 8
#: Types of figures.
FIGURES = (".png", ".svg", ".pdf")


@with_options(reading=READING_NEW, request=RECOVERY)
def recover(
    model: Model,
    data: Data,
    out: TableOut,
    *,
    reading: dict[str, Any],
    request: dict[str, Any],
    report: Annotated[Path | None, typer.Option(help="Also write an HTML report.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the curves: .png, .svg or .pdf.")
    ] = None,
    events: Annotated[
        Path | None,
        typer.Option(help="Also write the transitions as a table: onset, midpoint, end."),
    ] = None,
    edges: Annotated[
        Path | None, typer.Option(help="Also write the edges of the network W(t) as a table.")
    ] = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Recover the share of each mechanism at each step of new recordings.

    The table has a row per step: the share of each regime, its interval (REGIME_lower and
    REGIME_upper), the residual (1 is normal) and a flag (warm-up, missing, unexplained, disagree).

    \b
    Examples:
      mechtrace recover gait.mechtrace new.csv --out alpha.csv --report alpha.html
      mechtrace recover gait.mechtrace new.csv -o alpha.csv --plot alpha.png --events events.csv
      mechtrace recover gait.mechtrace 'new/*.csv' --out alpha.parquet --json -
      mechtrace recover gait.mechtrace new.csv --anchor 0:2=walk --level 0.95 -o alpha.csv
    """
    from .._runtime.progress import watched
    from ..io.tables import check_table, write_frames
    from ..stage2.events import event_record
    from ..stage2.trajectory import write_curves
    from ..viz.narrative import judged
    from ..viz.report import Results, check_available
    from .inputs import model_and_data, recovered

    check_targets([out, report, plot, events, edges, json_file], [model, *data])
    for table in (out, events, edges):
        if table is not None:
            check_table(table)
    if plot is not None:
        _check_figure(plot)
    if report is not None:
        check_available()
    trace, panel = model_and_data(model, data, reading, without=request.get("without", ()))
    results = Results(trace, recovered(trace, panel, request, progress=not quiet), panel)
    paths = results.paths
    write_curves(paths, out)
    if edges is not None:
        write_frames(((path.name, results.mechanisms.edges(path)) for path in paths), edges)
    every = not {json_file, events} <= {None}
    wanted = range(len(paths) if every else min(len(paths), SHOWN))
    diagnoses = [results.diagnosis(i) for i in watched(wanted, "diagnosing", quiet)]
    verdicts = [diagnosis.verdict for diagnosis in diagnoses]
    for path, diagnosis in zip(paths, diagnoses[:SHOWN], strict=False):
        logger.info(judged(path, diagnosis))
    if len(paths) > SHOWN:
        logger.info(f"... and {len(paths) - SHOWN} more recordings")
    if set(verdicts) - {"trust"}:
        logger.info("For the reasons of the verdict see mechtrace diagnose, or the report.")
    logger.info(f"{out}: {sum(map(len, paths)):,} rows")
    if report is not None:
        _write_report(results, report, quiet)
    if plot is not None:
        _plot(paths, diagnoses, plot)
        logger.info(f"{plot}: a figure of the curves")
    if not every:
        return
    of = dict(zip((path.name for path in paths), diagnoses, strict=True))
    zones = {path.name: path.zone for path in paths}
    found = {path.name: _told(path, of[path.name]) for path in paths}
    if events is not None:
        _write_events(found, zones, events)
        logger.info(f"{events}: {sum(map(len, found.values()))} transitions")
    write_json(json_file, {
        "file": str(out),
        "summary": {path.name: judged(path, of[path.name]) for path in paths},
        "events": {
            name: [event_record(event, zones[name]) for event in told]
            for name, told in found.items()
        },
        "diagnoses": [one.to_dict() for one in diagnoses],
    })  # fmt: skip


def _told(path: Trajectory, diagnosis: Diagnosis) -> list[Event]:
    """Return the events of a curve; none if nothing can be told."""
    return path.events(minimum=2) if diagnosis.off is None else []


def _write_events(found: dict[str, list[Event]], zones: dict[str, str | None], out: Path) -> None:
    """Write one table of the events of all recordings."""
    from ..io.tables import write_frames
    from ..stage2.events import events_frame

    frames = [
        (name, events_frame(events, zones[name])) for name, events in found.items() if events
    ]
    write_frames(frames or [("", events_frame([]))], out)


def _check_figure(path: Path) -> None:
    """Refuse a figure of an unknown type, or without matplotlib, before anything is computed."""
    from importlib.util import find_spec

    if path.suffix.lower() not in FIGURES:
        what = f"{path.suffix or 'a file without a suffix'} is no type of a figure"
        raise DataError(what, where=str(path), fix=f"use {', '.join(FIGURES)}")
    if find_spec("matplotlib") is None:
        raise MissingDependency(
            "figures need the package matplotlib", fix='pip install "mechtrace[plot]"'
        )


def _plot(paths: list[Trajectory], diagnoses: Sequence[Diagnosis], out: Path) -> None:
    """Draw one recording, several in a panel each, or many as rows of colours."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    from .._runtime.process import atomic_path
    from ..viz import plot
    from ..viz.narrative import within

    if len(paths) > PANELS:
        figure = plot.overview(paths).figure
    else:
        titles = [
            f"{path.name}: {diagnosis.verdict}{within(diagnosis)}"
            + ("" if diagnosis.off is None else ", a sensor is off")
            for path, diagnosis in zip(paths, diagnoses, strict=False)
        ]
        figure = plot.recordings(paths, titles=titles)[0].figure
    with atomic_path(out) as temporary:
        figure.savefig(temporary, dpi=150, format=out.suffix.lower()[1:])
    pyplot.close(figure)


@with_options(reading=READING_NEW, request=RECOVERY)
def report(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path(
        "report.html"
    ),
    *,
    reading: dict[str, Any],
    request: dict[str, Any],
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Write one HTML file about new recordings: the answer, the figures, the evidence.

    \b
    Example:
      mechtrace report gait.mechtrace new.csv --out alpha.html
    """
    from ..viz.narrative import judged
    from ..viz.report import Results, check_available
    from .inputs import model_and_data, recovered

    check_targets([out, json_file], [model, *data])
    check_available()
    trace, panel = model_and_data(model, data, reading, without=request.get("without", ()))
    results = Results(trace, recovered(trace, panel, request, progress=not quiet), panel)
    _write_report(results, out, quiet)
    if json_file is not None:
        summary = {p.name: judged(p, results.diagnosis(i)) for i, p in enumerate(results.paths)}
        write_json(json_file, {"file": str(out), "summary": summary})


def _write_report(results: Results, out: Path, quiet: bool) -> None:
    """Write the page, with the command that made it."""
    from ..viz.report import write_page

    write_page(results, out, command=typed_command(), progress=not quiet)
    logger.info(f"{out}: open it in a browser")


@with_options(
    reading=READING_NEW, request={name: RECOVERY[name] for name in RECOVERY if name != "level"}
)
def diagnose(
    model: Model,
    data: Data,
    *,
    reading: dict[str, Any],
    request: dict[str, Any],
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 1 if a verdict is 'do not trust'.")
    ] = False,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Check whether the recovered shares can be trusted: findings, their meaning, what to do.

    \b
    Examples:
      mechtrace diagnose gait.mechtrace new.csv
      mechtrace diagnose gait.mechtrace new.csv --strict --quiet && echo good
    """
    from .._runtime.progress import watched
    from .inputs import model_and_data, recovered

    check_targets([json_file], [model, *data])
    trace, panel = model_and_data(model, data, reading, without=request.get("without", ()))
    paths = recovered(trace, panel, request, progress=not quiet)
    diagnoses = [trace.diagnose(path) for path in watched(paths, "diagnosing", quiet)]
    for diagnosis in diagnoses[:SHOWN]:
        logger.info(str(diagnosis))
    verdicts = [diagnosis.verdict for diagnosis in diagnoses]
    if len(verdicts) > 1:
        counts = [f"{verdicts.count(v)} {v}" for v in ("trust", "caution", "do not trust")]
        logger.info(f"{len(verdicts)} recordings: {', '.join(counts)}")
    write_json(json_file, {"diagnoses": [diagnosis.to_dict() for diagnosis in diagnoses]})
    if strict and "do not trust" in verdicts:
        raise typer.Exit(1)


def calibrate(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A table written by recover.")],
    anchor: Annotated[
        list[str],
        typer.Option(metavar="FROM:TO=REGIME", help="Interval with a known regime. Repeatable."),
    ],
    out: TableOut,
    how: Annotated[str, typer.Option(help="Correction: auto, two-point or matrix.")] = "auto",
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Correct the scale of recovered shares by intervals with a known regime.

    One correction is estimated for the whole table. An interval of one recording is written
    SERIES/FROM:TO=REGIME, one between dates FROM..TO=REGIME, and one with a known mixture
    FROM:TO=walk:0.5,run:0.5.

    \b
    Example:
      mechtrace calibrate alpha.csv --anchor 0:10=walk --anchor 90:99=run --out better.csv
    """
    from ..io.tables import check_table
    from ..stage2.calibration import KnownInterval, calibrated
    from ..stage2.trajectory import read_curves, write_curves

    check_targets([out, json_file], [table])
    check_table(out)
    paths = calibrated(read_curves(table), [KnownInterval.parse(text) for text in anchor], how=how)
    write_curves(paths, out)
    used = paths[0].calibration
    logger.info(f"{out}: {len(paths)} recordings, corrected by {used} calibration")
    write_json(json_file, {"file": str(out), "how": used, "known": anchor})


def info(
    file: Annotated[Path, typer.Argument(metavar="MODEL", help="A stored model or a checkpoint.")],
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Describe a stored model: data, settings, training, versions.

    \b
    Examples:
      mechtrace info gait.mechtrace
      mechtrace info gait.mechtrace --json - | jq .regimes
    """
    from ..estimator import load

    check_targets([json_file], [file])
    trace = load(file)
    logger.info(trace.card_.rstrip())
    write_json(json_file, trace.facts_)
