"""`mechtrace datasets`: where public recordings come from, and what of them is here."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Annotated

import typer

from mechtrace.cli import Json, Quiet, check_targets, write_json
from mechtrace.errors import ConfigError

logger = logging.getLogger(__name__)


def datasets(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="cmu or uavdt; all if left out.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Its folder (default: its own below $MECHTRACE_DATA).")
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch missing files; needs --accept.")
    ] = False,
    accept: Annotated[
        bool, typer.Option("--accept", help="The terms of its owner were read and are accepted.")
    ] = False,
    json_file: Json = None,
    quiet: Quiet = False,
) -> None:
    """Public recordings: whose they are, their terms, and which files are here.

    Nothing is fetched unless --download and --accept ask for it.

    \b
    Examples:
      mechtrace datasets
      mechtrace datasets cmu --folder data/cmu_mocap
      mechtrace datasets cmu --folder data/cmu_mocap --download --accept
    """
    from ..datasets.recordings import VARIABLE
    from ..datasets.sources import SOURCES, source, state
    from ..datasets.sources import download as fetch
    from .options import files_below

    check_targets([json_file], files_below(folder))
    chosen = [source(name)] if name is not None else list(SOURCES.values())
    root = os.environ.get(VARIABLE)
    result = {}
    for one in chosen:
        place = folder or (Path(root) / one.folder if root else None)
        logger.info(f"{one.name}: {one.title}\n  page: {one.page}")
        logger.info(f"  terms: {one.terms}\n  {one.hint}")
        if download:
            if name is None or place is None:
                fix = "mechtrace datasets cmu --folder DIR --download --accept"
                raise ConfigError("what to fetch, or where to, was not said", fix=f"write {fix}")
            if not accept:
                what = "the terms above were not accepted"
                raise ConfigError(what, fix="read them and add --accept")
            logger.info(f"  {fetch(one, place)} files fetched from {one.mirror}")
        found = state(one, place) if place is not None else None
        if found is not None:
            counts = ", ".join(f"{len(files)} {kind}" for kind, files in found.items())
            logger.info(f"  {place}: {counts}")
        else:
            logger.info(f"  no folder was named: add --folder, or set {VARIABLE}")
        result[one.name] = {
            "page": one.page, "terms": one.terms, "folder": place and str(place), "files": found,
        }  # fmt: skip
    write_json(json_file, result)
