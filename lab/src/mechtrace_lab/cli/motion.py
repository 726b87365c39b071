"""`mechtrace motion`: a folder of captured motions becomes tables of channels."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Literal

import typer

from mechtrace.cli import Json, Quiet, check_targets, write_json
from mechtrace.errors import DataError

logger = logging.getLogger(__name__)


def motion(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Trials (.bvh, or .amc with its .asf).")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Table of the trials in folders: to learn from.")
    ],
    new: Annotated[
        Path | None, typer.Option(help="Table of the other trials: to recover.")
    ] = None,
    features: Annotated[
        Literal["legs", "paper"],
        typer.Option(help="Directions of the legs, or the paper's places and velocities."),
    ] = "legs",
    rate: Annotated[float, typer.Option(help="Rows per second.", min=1.0)] = 30.0,
    unit: Annotated[
        float | None, typer.Option(help="Metres per unit (default: that of the CMU files).")
    ] = None,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Turn a folder of captured motions into tables for fit and recover.

    The folder of a trial names its regime (walk/02_01.bvh). Trials that lie in no folder, or in
    one called transition or new, have none. What stands before the first _ of a file's name is
    the subject, the column `group`.

    \b
    Examples:
      mechtrace motion trials --out pure.csv --new new.csv
      mechtrace motion trials --out pure.parquet --features paper --unit 0.01
    """
    from mechtrace.io import check_table, write_panel

    from ..datasets import cmu
    from .options import files_below

    check_targets([out, new, json_file], files_below(folder))
    for table in (out, new):
        if table is not None:
            check_table(table)
    found = cmu.read(folder, features=features, rate=rate, unit=unit)
    pure, others = found.pure.panel, found.new.panel
    if not len(pure):
        fix = "put those of each regime into a folder with its name"
        raise DataError("no trial has a regime", where=str(folder), fix=fix)
    if new is not None and not len(others):
        fix = "put trials into a folder called new, or leave out --new"
        raise DataError("every trial has a regime", where=str(folder), fix=fix)
    tables = [(out, pure), *([(new, others.without_labels())] if new is not None else [])]
    for path, panel in tables:
        write_panel(cmu.with_named_groups(panel), path)
        logger.info(f"{path}: {panel!r}")
    if new is None and len(others):
        count = len(others)
        logger.info(f"{count} trials have no regime and were left out; --new FILE writes them")
    files = {str(path): [str(name) for name in panel.names] for path, panel in tables}
    write_json(json_file, {"regimes": list(pure.regimes), "files": files})
