"""Sources of the recordings: terms of use and download."""

from __future__ import annotations

import csv
import hashlib
import logging
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mechtrace._runtime import atomic_path
from mechtrace.errors import ConfigError, DataError

logger = logging.getLogger(__name__)

SECONDS = 60.0


@dataclass(frozen=True)
class Source:
    """A data set that others publish."""

    name: str
    title: str
    page: str  # of its owners
    terms: str
    mirror: str  # repository and revision that the files below were checked against
    folder: str  # its name below $MECHTRACE_DATA
    hint: str


SOURCES = {
    "cmu": Source(
        name="cmu",
        title="CMU Graphics Lab Motion Capture Database: walking, running and changes of gait",
        page="http://mocap.cs.cmu.edu",
        terms="Free for use in research and commercial projects worldwide. Please say: The data"
        " used in this project was obtained from mocap.cs.cmu.edu. The database was created with"
        " funding from NSF EIA-0196217.",
        mirror="https://raw.githubusercontent.com/una-dinosauria/cmu-mocap/"
        "09a07f54f3bbb58797325f009282d0b2048a2871/",
        folder="cmu_mocap",
        hint="BVH files (or .amc beside their .asf) in folders walk, run and transition.",
    ),
    "uavdt": Source(
        name="uavdt",
        title="UAVDT benchmark (Du et al., ECCV 2018): boxes of vehicles seen by a drone",
        page="https://sites.google.com/view/grli-uavdt (its paper names"
        " https://sites.google.com/site/daviddo0323)",
        terms="For research purposes only.",
        mirror="https://raw.githubusercontent.com/zhao-ziyi/trans_UAV_for_yolov5jde/"
        "8949ab7e881d9aaa5963d8eb0fec9f23b562fbcd/",
        folder="uavdt",
        hint="The files M*_gt_whole.txt; those listed here are of sequences with a steady camera.",
    ),
}


class File(NamedTuple):
    """One file of a data set."""

    place: str  # below the folder
    url: str
    sha256: str


def source(name: str) -> Source:
    """Look up a data set."""
    if name not in SOURCES:
        known = ", ".join(SOURCES)
        raise ConfigError(f"there is no data set {name!r}", fix=f"use one of {known}")
    return SOURCES[name]


def files_of(wanted: Source) -> list[File]:
    """Its files, with the checksums of the ones that were used here."""
    table = Path(__file__).with_name("files.csv")
    with table.open(encoding="utf-8", newline="") as file:
        return [
            File(row["place"], wanted.mirror + row["remote"], row["sha256"])
            for row in csv.DictReader(file)
            if row["set"] == wanted.name
        ]


def state(wanted: Source, folder: Path) -> dict[str, list[str]]:
    """List the files that are present, changed and missing."""
    out: dict[str, list[str]] = {"good": [], "other": [], "missing": []}
    for file in files_of(wanted):
        path = folder / file.place
        kind = "missing"
        if path.exists():
            kind = "good" if _checksum(path.read_bytes()) == file.sha256 else "other"
        out[kind].append(file.place)
    return out


def download(wanted: Source, folder: Path) -> int:
    """Download missing files, verify their checksums and return their number."""
    files = [file for file in files_of(wanted) if not (folder / file.place).exists()]
    for number, file in enumerate(files, start=1):
        content = _fetch(file.url)
        if _checksum(content) != file.sha256:
            what, fix = (
                "the file has changed since it was checked",
                "look at the page of its owner",
            )
            raise DataError(what, where=file.url, fix=fix)
        path = folder / file.place
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary:
            temporary.write_bytes(content)
        logger.info(f"{number} of {len(files)}: {file.place}")
    return len(files)


def _fetch(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            return bytes(answer.read())
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        fix = "check the network, or fetch it by hand and put it into the folder"
        raise DataError(f"cannot be fetched ({reason})", where=url, fix=fix) from error


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
