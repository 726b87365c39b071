"""Files, folders and wildcards become one Panel, with a word on how they were read."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .columns import ROLES, Columns
from .errors import DataError
from .joining import joined
from .readers.dialect import dialect_of
from .readers.files import TABLES, column_names, existing_file, read_table
from .readers.names import listed, natural_key, shown
from .readers.parts import Roles
from .readers.pictures import find_recordings, names_of, parse_size
from .readers.table import frame_parts
from .series import Panel

DATA_TYPES = (*TABLES, ".npz")


class Reading(NamedTuple):
    """A Panel, what its columns were taken for, and what is said about that."""

    panel: Panel
    roles: Roles
    said: dict[str, str]
    left_out: dict[str, str]  # columns, and why

    @property
    def how(self) -> str:
        """One line: what was guessed, what was left out, what there is."""
        roles = ", ".join(self.said[role] for role in ROLES if role in self.said)
        notes = [text for key, text in self.said.items() if key not in ROLES]
        return f"{self.panel.source}: {'; '.join(filter(None, [roles, *notes, size(self.panel)]))}"


def read_panel(
    path: Path,
    missing: str | None = None,
    channels: Sequence[str] | None = None,
    gap: float | None = None,
    *,
    labelled: bool = True,
    group: str | None = None,
    **given: str | None,
) -> Reading:
    """A Panel from one file; roles that are not `given` are guessed and said.

    Unless `channels` are named, text and counters are left out of them, and said too. A `group`
    is never guessed, as it decides what is held out together. Where the
    data is not to be `labelled`, no regime column is looked for.
    """
    if not is_table(path):
        panel = Panel.read(path, missing=missing, gap=gap, group=group, **given)
        return Reading(
            panel if channels is None else with_channels(panel, channels), Roles(), {}, {}
        )
    existing_file(path)
    columns = Columns.of(column_names(path), channels, labelled, given, group)
    table = read_table(path, columns.names_wanted())
    frame = columns.settle(table.frame)
    roles = Roles(
        time=columns.time, series=columns.series, regime=columns.regime, group=group,
        channels=columns.channels, missing=missing, gap=gap,
    )  # fmt: skip
    panel = Panel(**frame_parts(frame, roles, path.name, table.row_name))
    if columns.series is None:
        panel = replace(panel, names=np.array([stem(path)]))
    elif columns.restarts:
        roles["series"] = None
    said = columns.said()
    dialect = str(dialect_of(path)) if path.name.lower().endswith((".csv", ".csv.gz")) else ""
    said |= {"dialect": f"{dialect} (guessed)"} if dialect else {}
    return Reading(panel, roles, said, columns.left_out)


def is_table(path: Path) -> bool:
    """Whether a file has columns, by its suffix."""
    return path.name.lower().endswith(TABLES)


def stem(path: Path) -> str:
    """The name of a file without its suffixes, which names a recording that has no other name."""
    lower = path.name.lower()
    known = next((end for end in (*TABLES, ".npz") if lower.endswith(end)), path.suffix)
    return path.name[: len(path.name) - len(known)] or path.name


def size(panel: Panel) -> str:
    """How much there is, and what of."""
    names = ", ".join(panel.channels[:8]) + (", ..." if len(panel.channels) > 8 else "")
    several = "s" if len(panel.channels) != 1 else ""
    counts = f"{len(panel):,} series, {panel.rows:,} rows, "
    if panel.is_image:
        counts += f"pictures of {panel.shape[0]} x {panel.shape[1]} pixels"
    else:
        counts += f"{len(panel.channels)} channel{several} ({names})"
    regimes = f"; regimes: {', '.join(panel.regimes[:12])}" if panel.labelled else ""
    return counts + regimes + (", ..." if len(panel.regimes) > 12 else "")


def read_inputs(
    sources: Sequence[Path],
    missing: str | None = None,
    channels: Sequence[str] | None = None,
    gap: float | None = None,
    *,
    labelled: bool = True,
    size: str | None = None,
    group: str | None = None,
    **given: str | None,
) -> Reading:
    """One Panel from all files that the sources mean; see read_panel.

    The roles of the columns are guessed from the first file, and the others must have the same.
    Videos and folders of images become pictures of this `size`.
    """
    sources = [place for source in sources for place in _places(source)]
    films = find_recordings(source for source in sources if not _holds_data(source))
    if films:
        return _read_pictures(sources, films, labelled, size, gap)
    files = find_files(sources)
    how: dict[str, Any] = {
        "missing": missing, "gap": gap, "labelled": labelled, "group": group, **given,
    }  # fmt: skip
    first = read_panel(files[0], channels=channels, **how)
    if len(files) == 1:
        return first
    alike = how | {role: first.roles.get(role) for role in ROLES} if first.roles else how
    without = how | dict.fromkeys(ROLES)  # arrays have no columns
    readings = [first]
    for path in files[1:]:
        options = alike if is_table(path) else without
        readings.append(read_panel(path, channels=first.panel.channels, **options))
    labels = _labels(files)
    panels = [_with_name(*pair) for pair in zip(readings, labels, strict=True)]
    said = dict(first.said)
    if said and first.roles.get("series") is None:
        said["series"] = said["series"].replace("no series", "one series per file")
    regimes = None
    folders = [path.resolve().parent.name for path in files]
    if labelled and len(set(folders)) > 1 and not any(panel.labelled for panel in panels):
        regimes, said["regime"] = folders, "regime = name of the folder (guessed)"
    extra = _extra_columns(files) if channels is None else []
    if extra:
        said["extra"] = f"not in {files[0].name}, so left out: {listed(extra, 5)}"
    source = f"{len(files)} files, {files[0].name} to {files[-1].name}"
    panel = joined(panels, labels, source, regimes)
    return first._replace(panel=panel, said=said)


def _read_pictures(
    sources: Sequence[Path], films: Sequence[Path], labelled: bool, size: str | None,
    gap: float | None,
) -> Reading:  # fmt: skip
    """Recordings of pictures; where these lie in several folders, the folder is the regime."""
    mixed = [source for source in sources if not find_recordings([source]) or _holds_data(source)]
    if mixed:
        what = "this holds no pictures, but other inputs do"
        raise DataError(what, where=str(mixed[0]), fix="read tables and pictures apart")
    folders = {film.resolve().parent.name for film in films}
    by_folder = labelled and len(folders) > 1
    panel = Panel.from_pictures(
        names_of(films),
        regime="folder" if by_folder else None,
        size=None if size is None else parse_size(size),
        gap=gap,
    )
    said = {"regime": "regime = name of the folder (guessed)"} if by_folder else {}
    return Reading(panel, Roles(), said, {})


def _holds_data(source: Path) -> bool:
    """Whether there are tables or arrays, beside which images are only illustrations."""
    if source.is_dir():
        return any(_is_data(path, source) for path in source.rglob("*"))
    return source.name.lower().endswith(DATA_TYPES)


def _places(source: Path) -> list[Path]:
    """What a pattern of videos or folders matches, for shells that do not; else the source."""
    if source.exists() or not glob.has_magic(str(source)):
        return [source]
    matches = [Path(name) for name in glob.glob(str(source), recursive=True)]
    shown = [path for path in sorted(matches, key=_order) if find_recordings([path])]
    return shown or [source]


def find_files(sources: Sequence[Path]) -> list[Path]:
    """The data files that the sources mean: files, all in a folder, all that match a pattern.

    Patterns are matched here too, for shells that do not, or where the user quoted them.
    """
    found: dict[Path, None] = {}
    for source in sources:
        if source.is_dir():
            inside = [path for path in source.rglob("*") if _is_data(path, source)]
            if not inside:
                fix = f"put files of type {', '.join(DATA_TYPES)} there, or folders of images"
                raise DataError("the folder holds no data", where=str(source), fix=fix)
            found |= dict.fromkeys(sorted(inside, key=_order))
        elif not source.exists() and glob.has_magic(str(source)):
            matches = [Path(name) for name in glob.glob(str(source), recursive=True)]
            if not matches:
                fix = "check the folder and the pattern"
                raise DataError("no file matches this pattern", where=str(source), fix=fix)
            found |= dict.fromkeys(find_files(sorted(matches, key=_order)))
        else:
            found[source] = None  # the reader says what is wrong with it
    return list(found)


def with_channels(panel: Panel, channels: Sequence[str]) -> Panel:
    """The panel with these channels, in this order."""
    if tuple(channels) == panel.channels:
        return panel
    for name in channels:
        if name not in panel.channels:
            what, fix = f"there is no channel {shown(name)}", listed(panel.channels)
            raise DataError(what, where=panel.source, fix=f"the channels are {fix}")
    chosen = [panel.channels.index(name) for name in channels]
    return replace(panel, values=panel.values[:, chosen], channels=tuple(channels))


def _is_data(path: Path, folder: Path) -> bool:
    inside = path.relative_to(folder)
    hidden = any(part.startswith(".") for part in inside.parts)
    return not hidden and path.is_file() and path.name.lower().endswith(DATA_TYPES)


def _order(path: Path) -> tuple[str, str]:
    return natural_key(str(path))


def _labels(files: list[Path]) -> list[str]:
    """The shortest names that tell the files apart: without folders where that will do."""
    short = [stem(path) for path in files]
    if len(set(short)) == len(short):
        return short
    with_folder = [f"{path.resolve().parent.name}/{stem(path)}" for path in files]
    unique = len(set(with_folder)) == len(with_folder)
    return with_folder if unique else [str(path) for path in files]


def _with_name(reading: Reading, label: str) -> Panel:
    """The panel; a table without a column for it is one series with the name of its file."""
    if reading.said and reading.roles.get("series") is None and len(reading.panel) == 1:
        return replace(reading.panel, names=np.array([label]))
    return reading.panel


def _extra_columns(files: list[Path]) -> list[str]:
    """Columns of later files that the first does not have."""
    names = [set(column_names(path)) - {""} for path in files if is_table(path)]
    return sorted(set().union(*names[1:]) - names[0]) if names else []
