"""`mechtrace reproduce`: the paper's tables, measured again."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Any

import typer

from mechtrace._runtime import say
from mechtrace.cli import Device, Json, Quiet, check_targets, write_json
from mechtrace.errors import ConfigError, DataError

logger = logging.getLogger(__name__)


def reproduce(
    tables: Annotated[
        list[str], typer.Argument(metavar="TABLE...", help="Names of tables, all, or list.")
    ],
    scale: Annotated[
        str, typer.Option(help="quick (minutes) or paper (its sizes; wants a GPU).")
    ] = "quick",
    seeds: Annotated[
        int | None,
        typer.Option(help="Fresh worlds for every cell; 1, or 3 at scale paper.", min=1),
    ] = None,
    workers: Annotated[int, typer.Option(help="Models trained at once.", min=1)] = 1,
    device: Device = "auto",
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder that keeps what is computed.")
    ] = Path("results/paper"),
    show: Annotated[bool, typer.Option("--show", help="Only print what is kept.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute again what is kept.")] = False,
    no_figures: Annotated[
        bool, typer.Option("--no-figures", help="Draw nothing; else NAME.png beside the results.")
    ] = False,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """The paper's tables: what it prints, Algorithm 1, mechtrace and the oracle side by side.

    A model is trained once for all tables that need it, in a process of its own, and everything
    measured on it is kept in OUT/SCALE: the same command goes on where it was stopped. Other
    methods are those of `mechtrace compare`. The tables gait, vehicles and frames need recordings
    below $MECHTRACE_DATA (`mechtrace datasets`); without these they are skipped, and say so. The
    exit code is 1 if something failed.

    \b
    Examples:
      mechtrace reproduce list
      mechtrace reproduce samples window --workers 2
      mechtrace reproduce cartpole gait vehicles frames
      mechtrace reproduce all --scale paper --device cuda --workers 4
    """
    from ..reproduction.plan import TABLES
    from .options import files_below

    if tables == ["list"]:
        width = max(map(len, TABLES))
        for table in TABLES.values():
            logger.info(f"{table.name:{width}}  {table.title}")
        write_json(json_file, {"tables": {t.name: t.title for t in TABLES.values()}})
        return
    names = list(TABLES) if tables == ["all"] else list(dict.fromkeys(tables))
    for name in names:
        if name not in TABLES:
            raise ConfigError(
                f"there is no table {name!r}", fix=f"use list, all or {', '.join(TABLES)}"
            )
    check_targets([json_file], files_below(None))
    if out.is_file():
        raise DataError("this is a file", where=str(out), fix="name a folder for the results")
    from ..reproduction import run, side_by_side
    from ..reproduction.models import scale_named

    seeds = scale_named(scale).seeds if seeds is None else seeds
    failed: list[dict[str, Any]] = []
    if not show:
        try:
            rows = run.reproduce(
                names, out, scale=scale, seeds=seeds, workers=workers, device=device,
                fresh=fresh, live=not quiet,
            )  # fmt: skip
        except KeyboardInterrupt:
            say(f"mechtrace: stopped; the same command goes on ({out}).", err=True)
            raise typer.Exit(130) from None
        failed = [row for row in rows if row["status"] == run.FAILED]
    found = {name: side_by_side.measured(name, out, scale=scale, seeds=seeds) for name in names}
    for name, lines in found.items():
        logger.info(f"\n{TABLES[name].title} ({scale}, seeds: {seeds})")
        for reason in side_by_side.absent(name, out, scale=scale, seeds=seeds):
            logger.info(f"Not measured: {reason}")
        logger.info(side_by_side.text(lines))
        if name == "methods":  # whose rows compete
            logger.info("\n".join(side_by_side.leads(lines)))
    for row in failed:
        logger.info(f"{row['stem']} failed: {row['reason']}")
    write_json(json_file, {n: [line.to_dict() for line in lines] for n, lines in found.items()})
    if not no_figures:
        _draw(names, out, scale, seeds)
    if failed:
        raise typer.Exit(1)


def _draw(names: list[str], out: Path, scale: str, seeds: int) -> None:
    """Figures of the tables that have one, and where they are."""
    try:
        import matplotlib
    except ImportError:
        logger.info('No figures: they need the package matplotlib; pip install "mechtrace[plot]".')
        return
    matplotlib.use("agg")
    from ..reproduction import figures

    for path in figures.write(names, out, scale=scale, seeds=seeds):
        logger.info(f"figure: {path}")
