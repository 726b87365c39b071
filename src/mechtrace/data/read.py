"""Files, folders and patterns become one Panel; roles of columns are detected and listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import DataError
from ..io.cells import listed, shown
from ..io.column_names import ROLES, names_group, names_regime
from ..io.column_roles import MIN_GROUPS, ColumnRoles
from ..io.discover import (
    TABLES,
    file_labels,
    file_stem,
    find_inputs,
    has_type,
    hive_columns,
    recording_names,
    resolved,
    words_of_names,
)
from ..io.frames import parse_size
from ..io.long_format import (
    frame_parts,
    with_index_columns,
    with_trimmed_header,
    with_trimmed_names,
)
from ..io.parts import Roles
from ..io.tables import TableSource, open_table
from ..io.unpack import unpacked
from .join import constant_in_series, join_panels
from .panel import Panel

if TYPE_CHECKING:
    import pandas as pd

NO_ROLES: Mapping[str, str | None] = MappingProxyType({})


class Reading(NamedTuple):
    """A Panel, and how its files were read.

    Attributes
    ----------
    panel : Panel
        The recordings.
    roles : Roles
        The column of each role; empty for files without columns.
    notes : dict
        For each role, and for what else was detected or left out, a phrase for the user.
    left_out : dict
        Columns that were not read, and why.
    header : tuple of str
        All columns of the (first) file.
    constants : mapping
        Cells of columns without a role that have the same words or whole number in all rows.
    """

    panel: Panel
    roles: Roles
    notes: dict[str, str]
    left_out: dict[str, str]
    header: tuple[str, ...] = ()
    constants: Mapping[str, str] = MappingProxyType({})

    @property
    def summary(self) -> str:
        """One line: detected columns, columns left out, and the size of the data."""
        roles = ", ".join(self.notes[role] for role in ROLES if role in self.notes)
        other = [text for key, text in self.notes.items() if key not in ROLES]
        parts = filter(None, [roles, *other, _size(self.panel)])
        return f"{self.panel.source}: {'; '.join(parts)}"


def read_panel(
    path: Path,
    missing: str | None = None,
    channels: Sequence[str] | None = None,
    gap: float | None = None,
    *,
    labelled: bool = True,
    group: str | None = None,
    model_roles: Mapping[str, str | None] = NO_ROLES,
    **given: str | None,
) -> Reading:
    """Read one file; the roles of columns that are not given are detected and listed.

    Parameters
    ----------
    path : Path
        A table or an npz file.
    missing, gap
        As in `Panel.from_frame`.
    channels : sequence of str, optional
        Columns with measurements; by default all but text, counters and empty ones.
    labelled : bool
        Whether to look for a regime column.
    group : str, optional
        Column that names what is held out together; it is never detected.
    model_roles : mapping, optional
        Columns of the recordings that a model was fitted to, used where they are present.
    **given : str
        Columns named by the user: `time`, `series`, `regime`.

    Returns
    -------
    Reading
        The Panel, and what was detected.

    Raises
    ------
    DataError
        If the file, a column or a cell cannot be used.
    """
    if not has_type(path, TABLES):
        panel = Panel.read(path, missing=missing, gap=gap, group=group, **given)
        panel = panel if channels is None else with_channels(panel, channels)
        return Reading(panel, Roles(), {}, {})
    with open_table(path) as table:
        folders = {k: v for k, v in hive_columns(path).items() if k not in table.header}
        header = [*table.header, *folders]
        columns = ColumnRoles.from_header(header, channels, labelled, given, group, model_roles)
        frame = table.frame(name for name in columns.text_columns() if name not in folders)
        reading = _read(frame.assign(**folders), columns, missing, gap, table)
    if columns.series is None:
        panel = replace(reading.panel, names=np.array([file_stem(path)]))
        reading = reading._replace(panel=panel)
    dialect = str(table.dialect) if has_type(path, (".csv", ".csv.gz")) else ""
    if remarks := ", ".join(filter(None, [dialect, *table.remarks])):
        reading.notes["dialect"] = f"{remarks} (detected)"
    return reading._replace(header=tuple(header))


def read_frame(
    frame: pd.DataFrame,
    missing: str | None = None,
    channels: Sequence[str] | None = None,
    *,
    labelled: bool = True,
    model_roles: Mapping[str, str | None] = NO_ROLES,
) -> Reading:
    """Read a frame as `read_panel` reads a file."""
    frame = with_trimmed_header(with_index_columns(frame))
    header = list(frame.columns)
    columns = ColumnRoles.from_header(header, channels, labelled, {}, None, model_roles)
    return _read(frame, columns, missing, None)


def _read(
    frame: pd.DataFrame, columns: ColumnRoles, missing: str | None, gap: float | None,
    table: TableSource | None = None,
) -> Reading:  # fmt: skip
    origin = ("DataFrame",) if table is None else (table.path.name, table.row_name)
    frame = columns.resolve(
        with_trimmed_names(frame, columns.text_columns(), origin[0]), origin[0]
    )
    roles = Roles(
        time=columns.time, series=columns.series, regime=columns.regime, group=columns.group,
        channels=columns.channels, missing=missing, gap=gap,
    )  # fmt: skip
    panel = Panel.from_parts(frame_parts(frame, roles, *origin))
    if columns.series == " ":  # numbered where the time goes back
        roles["series"] = None
        panel = replace(panel, preparation=replace(panel.preparation, series=None))
    constants = columns.constants(frame)
    return Reading(panel, roles, columns.notes(), columns.left_out, constants=constants)


def read_inputs(
    sources: Sequence[Path],
    missing: str | None = None,
    channels: Sequence[str] | None = None,
    gap: float | None = None,
    *,
    labelled: bool = True,
    size: str | None = None,
    group: str | None = None,
    model_roles: Mapping[str, str | None] = NO_ROLES,
    **given: str | None,
) -> Reading:
    """Read all files that the sources mean into one Panel.

    The roles of columns are detected in the first file, and the others must have the same.

    Parameters
    ----------
    sources : sequence of Path
        Files, folders and patterns of tables and npz files; or videos and folders of images.
    missing, channels, gap, labelled, group, model_roles, **given
        As in `read_panel`.
    size : str, optional
        HEIGHTxWIDTH to which pictures are resized.

    Returns
    -------
    Reading
        The Panel, and what was detected.

    Raises
    ------
    DataError
        If there is no data, or a file, a column or a cell cannot be used.
    """
    found, recordings = find_inputs(sources)
    if recordings:
        return _read_pictures(recordings, labelled, size, gap)
    options: dict[str, Any] = {
        "missing": missing, "gap": gap, "labelled": labelled, "group": group, **given,
    }  # fmt: skip
    with unpacked(found) as files:
        reading = _read_files(files, channels, model_roles, options)
    constant = constant_in_series(reading.panel) if channels is None and reading.header else []
    kept = [name for name in reading.panel.channels if name not in constant]
    if len(found) == len(files) == 1 or not constant or not kept:
        return reading
    notes = reading.notes | {"constant": f"same throughout each series: {listed(constant, 5)}"}
    return reading._replace(panel=with_channels(reading.panel, kept), notes=notes)


def _read_files(
    files: Sequence[Path],
    channels: Sequence[str] | None,
    model_roles: Mapping[str, str | None],
    options: dict[str, Any],
) -> Reading:
    """Read files one after the other, all with the roles that are detected in the first."""
    labelled = options["labelled"]
    first = read_panel(files[0], channels=channels, model_roles=model_roles, **options)
    if len(files) == 1:
        return first
    as_first = {role: first.roles.get(role) for role in (*ROLES, "group")} if first.roles else {}
    readings = [first]
    for path in files[1:]:
        roles = as_first if has_type(path, TABLES) else dict.fromkeys(ROLES)
        readings.append(read_panel(path, channels=first.panel.channels, **options | roles))
    labels = file_labels(files)
    panels = [_with_name(*pair) for pair in zip(readings, labels, strict=True)]
    notes = dict(first.notes)
    if notes and first.roles.get("series") is None:
        notes["series"] = notes["series"].replace("no series", "one series per file")
    regimes = None
    if labelled and not any(panel.labelled for panel in panels):
        regimes, how = _regimes_of_files(files, readings)
        notes |= {"regime": how} if how else {}
    if labelled and not any(panel.groups is not None for panel in panels):
        name, groups = _constant_cells(readings, names_group_perhaps, MIN_GROUPS)
        if name:
            notes["group"] = f"group = {name} (detected)"
            panels = [
                replace(panel, groups=np.repeat(np.str_(group), len(panel)))
                for panel, group in zip(panels, groups, strict=True)
            ]
    headers = [set(reading.header) - {""} for reading in readings if reading.header]
    extra = sorted(set().union(*headers) - headers[0]) if headers and channels is None else []
    if extra:
        notes["extra"] = f"not in {files[0].name}, so left out: {listed(extra, 5)}"
    source = f"{len(files)} files, {files[0].name} to {files[-1].name}"
    return first._replace(panel=join_panels(panels, labels, source, regimes), notes=notes)


def _regimes_of_files(
    files: Sequence[Path], readings: Sequence[Reading]
) -> tuple[list[str] | None, str]:
    """Find the regime of each file: its folder, a cell that is the same throughout, its name."""
    folders = [resolved(path).parent.name for path in files]
    if len(set(folders)) > 1:
        return folders, "regime = name of the folder (detected)"
    for named in (names_regime, None):
        name, cells = _constant_cells(readings, named, 2)
        if name:
            return cells, f"regime = {name} (detected)"
    kinds = words_of_names([file_stem(path) for path in files])
    return (kinds, "regime = words of the file names (detected)") if kinds else (None, "")


def _constant_cells(
    readings: Sequence[Reading], named: Callable[[str], bool] | None, least: int
) -> tuple[str, list[str]]:
    """Find a column that has one value in each file, and fewer values than there are files.

    Without `named` it has to be the only one with words.
    """
    found = {}
    for name in readings[0].constants:
        cells = [reading.constants.get(name, "") for reading in readings]
        words = any(cell.strip(" +-.0123456789") for cell in cells)
        if all(cells) and least <= len(set(cells)) < len(cells) and (named or words):
            found[name] = cells
    fits = [name for name in found if named is None or named(name)]
    return (fits[0], found[fits[0]]) if len(fits) == 1 or (fits and named) else ("", [])


def names_group_perhaps(name: str) -> bool:
    """Tell whether a column is named like machines, people or parts of machines."""
    return names_group(name, perhaps=True)


def _read_pictures(
    recordings: Sequence[Path], labelled: bool, size: str | None, gap: float | None
) -> Reading:
    """Read pictures; where recordings lie in several folders, the folder is the regime."""
    folders = {resolved(path).parent.name for path in recordings}
    by_folder = labelled and len(folders) > 1
    panel = Panel.from_pictures(
        recording_names(recordings),
        regime="folder" if by_folder else None,
        size=None if size is None else parse_size(size),
        gap=gap,
    )
    notes = {"regime": "regime = name of the folder (detected)"} if by_folder else {}
    return Reading(panel, Roles(), notes, {})


def with_channels(panel: Panel, channels: Sequence[str]) -> Panel:
    """Return the panel with these channels, in this order."""
    if tuple(channels) == panel.channels:
        return panel
    for name in channels:
        if name not in panel.channels:
            what, fix = f"there is no channel {shown(name)}", listed(panel.channels)
            raise DataError(what, where=panel.source, fix=f"the channels are {fix}")
    chosen = [panel.channels.index(name) for name in channels]
    return replace(panel, values=panel.values[:, chosen], channels=tuple(channels))


def _with_name(reading: Reading, label: str) -> Panel:
    """Name the series of a table without a series column after its file."""
    if reading.notes and reading.roles.get("series") is None and len(reading.panel) == 1:
        return replace(reading.panel, names=np.array([label]))
    return reading.panel


def _size(panel: Panel) -> str:
    """Describe series, rows, channels or pixels, and regimes."""
    names = ", ".join(panel.channels[:20]) + (", ..." if len(panel.channels) > 20 else "")
    several = "s" if len(panel.channels) != 1 else ""
    counts = f"{len(panel):,} series, {panel.rows:,} rows, "
    if panel.is_image:
        counts += f"pictures of {panel.shape[0]} x {panel.shape[1]} pixels"
    else:
        counts += f"{len(panel.channels)} channel{several} ({names})"
    regimes = f"; regimes: {', '.join(panel.regimes[:12])}" if panel.labelled else ""
    return counts + regimes + (", ..." if len(panel.regimes) > 12 else "")
