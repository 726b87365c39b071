"""`mechtrace compare`: methods on the same data, with the same budget and scores."""

from __future__ import annotations

import json
import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mechtrace._runtime import say
from mechtrace.cli import (
    READING,
    Device,
    Json,
    Quiet,
    assignments,
    check_targets,
    named,
    presets,
    with_options,
    write_json,
)
from mechtrace.errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np

    from mechtrace.data import Panel

logger = logging.getLogger(__name__)

#: What is written to the folder of the results.
FILES = ("comparison.json", "comparison.csv", "curves.csv", "comparison.png", "curves.png")


@with_options(reading=READING)
def compare(
    data: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DATA",
            help="Labelled recordings: files (.csv, .tsv, .parquet, .npz), folders or patterns"
            " in quotes; or none, with --world.",
        ),
    ] = None,
    methods: Annotated[
        str, typer.Option(help="As mechtrace,leap; all that can run here; list shows them.")
    ] = "all",
    world: Annotated[
        str | None,
        typer.Option(help="Compare in worlds with known truth.", autocompletion=presets),
    ] = None,
    series: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|COLUMN",
            help="With --world how many recordings of each regime to learn from (2000); with"
            " DATA the column that names the recording.",
        ),
    ] = None,
    trials: Annotated[int, typer.Option(help="Transitions that share a schedule.", min=1)] = 200,
    seeds: Annotated[int, typer.Option(help="Fresh worlds, or other splits of DATA.")] = 5,
    regimes: Annotated[int, typer.Option(help="Regimes of the world.")] = 5,
    active: Annotated[int, typer.Option(help="How many of them take part in a transition.")] = 3,
    schedule: Annotated[str, typer.Option(help="Schedules, as simple,medium.")] = "simple",
    *,
    reading: dict[str, Any],
    share: Annotated[float, typer.Option(help="Share of DATA to hold out for judging.")] = 0.25,
    new: Annotated[
        list[Path] | None,
        typer.Option(help="New, unlabelled recordings: every method's curves are written."),
    ] = None,
    truth: Annotated[
        Path | None,
        typer.Option(help="Their true weights: a table with a column for each regime."),
    ] = None,
    pool: Annotated[
        bool, typer.Option("--pool", help="--new are trials of one schedule.")
    ] = False,
    transitions: Annotated[
        int | None, typer.Option(help="Budget: transitions that each method may see.")
    ] = None,
    latents: Annotated[int | None, typer.Option(help="Latent dimensions.")] = None,
    lags: Annotated[int | None, typer.Option(help="Steps of history.")] = None,
    holdout: Annotated[
        float | None,
        typer.Option(
            help="Fraction of the series (or groups) of each regime that a method learns without,"
            " to select and to measure noise by, as in fit. [default: 0.1]"
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Another setting, as window=100."),
    ] = None,
    workers: Annotated[int, typer.Option(help="Cells at once.", min=1)] = 1,
    device: Device = "auto",
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path(
        "comparison"
    ),
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Compute again what is kept in that folder.")
    ] = False,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Compare methods on the same data, with the same splits and the same budget.

    In a world (--world) the truth is known: correlation with the true weights, pooled over trials
    and from one recording alone, and with the true latents (MCC), as each method selects itself
    and as the truth would select. On labelled recordings (DATA) some are held out: accuracy,
    weight of the right regime, log loss, and switches spliced from them, which favour methods
    that assume instant switches.

    Every method and seed runs in a process of its own and is kept in OUT/cells: the same command
    goes on where it was stopped. Methods that do not apply to the data are left out, with the
    reason. The last line says whether a simpler method does as well. The exit code is 1 if a
    method failed.

    \b
    Examples:
      mechtrace compare --methods list
      mechtrace compare --world paper --series 400 --seeds 3 --workers 2 --out paper
      mechtrace compare runs.csv --new new.csv --methods mechtrace,ar-hmm --out mine
      mechtrace compare runs.csv --group-by subject --new new.csv --truth shares.csv
    """
    if methods == "list":
        _list(json_file, quiet)
        return
    if bool(data) == bool(world):
        what = "both data and a world were given" if data else "there is nothing to compare on"
        fix = "name labelled recordings, or a world as in --world paper, but not both"
        raise ConfigError(what, fix=fix)
    if out.is_file():
        raise DataError("this is a file", where=str(out), fix="name a folder for the results")
    written = [out / name for name in FILES] if out.is_dir() else []
    check_targets(
        [json_file, *written], [*(data or []), *(new or []), *([truth] if truth else [])]
    )
    from ..comparison import FAILED, FINISHED, WorldTask, choose_methods, compare, table

    given = {"latents": latents, "lags": lags, "transitions": transitions, "holdout": holdout}
    settings = _settings(option, {k: v for k, v in given.items() if v is not None})
    if seeds < 1:
        raise ConfigError(f"{seeds} seeds", fix="use one at least")
    entries, skipped = choose_methods(None if methods == "all" else named(methods))
    how: dict[str, Any] = {
        "seeds": seeds, "workers": workers, "fresh": fresh, "skipped": skipped,
        "live": not quiet, "device": device, **settings,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        if world:
            if new or truth:
                raise ConfigError("a world has no new recordings", fix="leave out --new, --truth")
            task: Any = WorldTask(
                world, regimes, _count(series), trials, active, tuple(named(schedule) or ())
            )
            panels = None
        else:
            roles = reading | ({"series": series} if series else {})
            task, panels = _data_task(
                data or [], new or [], truth, Path(folder), roles,
                lags=settings.get("lags", 2), share=share, pool=pool,
            )  # fmt: skip
        try:
            result = compare(task, entries, out, **how)
        except KeyboardInterrupt:
            rows = json.loads((out / "comparison.json").read_text(encoding="utf-8"))["rows"]
            kept = sum(row["status"] == FINISHED for row in rows)
            said = f"mechtrace: stopped; {kept} cells are kept, the same command goes on ({out})."
            say(said, err=True)
            raise typer.Exit(130) from None
    logger.info(table(result))
    _draw(result, panels, out)
    if result["conclusion"]:
        logger.info(result["conclusion"])
    write_json(json_file, result)
    states = [row["status"] for row in result["rows"] if row["method"] != "oracle"]
    if FAILED in states or FINISHED not in states:
        raise typer.Exit(1)


def _list(json_file: Path | None, quiet: bool) -> None:
    from ..comparison import method_infos

    found = method_infos()
    width = max((len(one.name) for one in found), default=0)
    for one in found:
        logger.info(one.line(width))
    write_json(json_file, {"methods": [one.to_dict() for one in found]})


def _settings(pairs: list[str] | None, flags: dict[str, Any]) -> dict[str, Any]:
    """Settings of the methods, those that are flags and others."""
    from dataclasses import fields

    from ..baselines import Settings

    settings = assignments(pairs or []) | flags
    known = [one.name for one in fields(Settings) if one.name not in ("seed", "device")]
    for name, value in settings.items():
        if name not in known:
            raise ConfigError(f"there is no setting {name!r}", fix=f"use {', '.join(known)}")
        kind = type(getattr(Settings, name))
        if isinstance(value, bool) or not isinstance(value, (int, kind)):
            raise ConfigError(f"{name} = {value!r}", fix="give a number")
    Settings(**settings)
    return settings


def _count(text: str | None) -> int:
    if text is not None and (not text.isdecimal() or int(text) < 1):
        raise ConfigError(f"--series {text} with a world", fix="say how many, as --series 400")
    return 2000 if text is None else int(text)


def _data_task(
    data: list[Path],
    new: list[Path],
    truth: Path | None,
    folder: Path,
    roles: dict[str, Any],
    *,
    lags: int,
    **how: Any,
) -> tuple[Any, tuple[Panel, Panel | None, list[np.ndarray] | None]]:
    """The user's recordings, checked and put where the cells find them."""
    from mechtrace.cli import read_labelled
    from mechtrace.data import read_inputs
    from mechtrace.evaluate import TruthTable
    from mechtrace.io import Preparation

    from ..comparison import DataTask, truth_for

    if truth is not None and not new:
        raise ConfigError("there is a truth but nothing new", fix="add --new FILE")
    if how["pool"] and not new:
        raise ConfigError("there is nothing to pool", fix="add --new FILE, or leave out --pool")
    panel, unlabelled, weights = read_labelled(data, roles).panel, None, None
    preparation = Preparation.of(panel)
    if new:
        other = read_inputs(
            new, roles.get("missing"), panel.channels, roles.get("gap"), labelled=False,
            model_roles=preparation.columns,
        )  # fmt: skip
        logger.info(other.summary)
        unlabelled = preparation.apply(other.panel)
    if truth is not None:
        assert unlabelled is not None  # refused above
        weights = truth_for(unlabelled, TruthTable.read(truth, panel.regimes, preparation))
    task = DataTask.of(panel, folder, new=unlabelled, truth=weights, lags=lags, **how)
    return task, (panel, unlabelled, weights)


def _draw(
    result: dict[str, Any],
    panels: tuple[Panel, Panel | None, list[np.ndarray] | None] | None,
    out: Path,
) -> None:
    """The figures, where matplotlib is; and the curves of new recordings."""
    from mechtrace.io import write_table

    from ..comparison import curves_frame

    files = ["comparison.json", "comparison.csv"]
    frame, known = None, {}
    panel, new, weights = panels or (None, None, None)
    if panel is not None and new is not None:
        frame = curves_frame(result["rows"], new, panel.regimes, out / "cells")
        known = dict(zip(new.names.tolist(), weights, strict=True)) if weights else {}
        if weights and "pooled" not in known:
            known["pooled"] = weights[0]
    if frame is not None:
        write_table(frame, out / "curves.csv")
        files.append("curves.csv")
    if any(one["finished"] for one in result["summary"] if one["method"] != "oracle"):
        files += _figures(result, frame, known, out)
    for name in files:
        logger.info(f"  {out / name}")


def _figures(result: dict[str, Any], frame: Any, truth: dict[str, Any], out: Path) -> list[str]:
    try:
        import matplotlib
    except ImportError:
        fix = 'pip install "mechtrace[plot]"'
        logger.info(f"No pictures: they need the package matplotlib; {fix}.")
        return []
    matplotlib.use("agg")
    from matplotlib import pyplot

    from mechtrace._runtime import atomic_path

    from ..plot import comparison, method_curves

    drawn = {"comparison.png": comparison(result)}
    if frame is not None:
        drawn["curves.png"] = method_curves(frame, truth=truth)
    for name, axes in drawn.items():
        with atomic_path(out / name) as temporary:
            axes[0].figure.savefig(temporary, dpi=150)
        pyplot.close(axes[0].figure)
    return list(drawn)
