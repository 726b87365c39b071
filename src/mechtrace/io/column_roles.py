"""The columns of a table in long format: which role each plays, and their cells as Parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..errors import DataError, MissingColumn
from .cells import (
    BLANKS,
    Locator,
    encode_names,
    encode_regimes,
    listed,
    parse_time,
    refuse_repeated,
    shown,
    trimmed,
)
from .parts import Parts, Preparation, Roles, finish

if TYPE_CHECKING:
    import pandas as pd

#: Usual names of these columns, in order of preference.
USUAL_NAMES = {
    "time": ("time", "t", "timestamp", "datetime", "date", "seconds", "elapsed", "frame"),
    "series": ("series", "run", "trial", "recording", "sequence", "subject", "id", "unit"),
    "regime": (
        "regime", "mode", "label", "state", "condition", "phase", "class", "activity", "stage",
    ),
}  # fmt: skip
ROLES = tuple(USUAL_NAMES)
#: Columns with these names that increase throughout are not measurements.
CLOCKS = {*USUAL_NAMES["time"], *USUAL_NAMES["series"], "index", "sample", "step"}
#: Key of `DataFrame.attrs` for the columns that were levels of the index.
INDEX = "mechtrace index"
#: Columns do not name the series if together they would make shorter ones on average.
MIN_SERIES_ROWS = 3
#: A detected regime column with more different values than this is a measurement, or text.
MAX_DETECTED_REGIMES = 100


def detect_roles(names: Sequence[str], given: dict[str, str | None]) -> dict[str, str | None]:
    """Fill the roles that were not given, by the usual names of columns.

    >>> detect_roles(["T", "run", "x1"], {"time": None, "series": None, "regime": None})
    {'time': 'T', 'series': 'run', 'regime': None}
    """
    taken = {name for name in given.values() if name is not None}
    return {
        role: given.get(role) or next(iter(_usual(names, role, taken)), None) for role in ROLES
    }


def _usual(names: Sequence[str], role: str, taken: set[str]) -> list[str]:
    """Columns with a usual name of this role, preferred names first."""
    lower = {_without_unit(name): name for name in reversed(names) if name not in taken}
    return [lower[name] for name in USUAL_NAMES[role] if name in lower]


@dataclass
class ColumnRoles:
    """The roles of the columns of one table: from the header first, then from the cells."""

    given: dict[str, str | None]
    time: str | None
    series: str | None
    regime: str | None
    channels: list[str] | None
    candidates: list[str]  # for the series, if the first does not tell all rows apart
    group: str | None = None  # never detected, as it decides what is held out together
    from_model: frozenset[str] = frozenset()  # roles given by the model that the table is for
    left_out: dict[str, str] = field(default_factory=dict)  # columns, and why
    restarts: bool = False  # whether a new series begins wherever time goes back

    @classmethod
    def from_header(
        cls,
        header: list[str],
        channels: Sequence[str] | None,
        labelled: bool,
        given: dict[str, str | None],
        group: str | None,
        model_roles: Mapping[str, str | None],
    ) -> ColumnRoles:
        """Detect roles by name; `model_roles` count where their columns are present."""
        free = [name for name in header if name not in (channels or ())]
        found: dict[str, str | None] = {
            role: name
            for role, name in model_roles.items()
            if not given.get(role)
            and name
            and (name in free or set(_split_names(name)) <= set(free))
        }
        given = given | found
        roles = detect_roles(free, given)
        if not labelled:
            roles["regime"] = None
        taken = {name for role, name in roles.items() if name and role != "series"}
        candidates = [] if given.get("series") else _usual(free, "series", taken)
        chosen = None if channels is None else list(channels)
        return cls(
            given, roles["time"], roles["series"], roles["regime"], chosen, candidates, group,
            from_model=frozenset(found),
        )  # fmt: skip

    def text_columns(self) -> list[str | None]:
        """List the columns whose cells are names, even where they look like numbers."""
        return [self.regime, self.group, *self.candidates, *_split_names(self.series)]

    def resolve(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Revise detected roles by the cells, and list the channels."""
        if self.channels is None:
            frame = self._without_nameless(frame)
        if frame.columns.has_duplicates:
            return frame  # refused by frame_parts
        detected = self.regime in frame and not self.given.get("regime")
        if detected and frame[self.regime].nunique() > MAX_DETECTED_REGIMES:
            self.regime = None
        frame = self._resolve_series(frame)
        if self.channels is None:
            keys = {self.time, self.series, self.regime, self.group, *self.left_out}
            keys |= {*_split_names(self.series), *frame.attrs.get(INDEX, [])}
            free = [name for name in frame.columns if name not in keys]
            self.channels = [name for name in free if self._is_channel(frame, name)]
        return frame

    def _without_nameless(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Drop columns without a name: an index by pandas, or a separator at the line end."""
        nameless = [place for place, name in enumerate(frame.columns) if name == ""]
        filled = frame.notna().any().to_numpy()
        self.left_out |= {f"column {k + 1}": "has no name" for k in nameless if filled[k]}
        return frame.loc[:, [name != "" for name in frame.columns]] if nameless else frame

    def _resolve_series(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Find one column, several that together tell the rows apart, or restarts of time."""
        if self.given.get("series"):
            columns = _split_names(self.series)
            if self.series in frame or not set(columns) <= set(frame.columns):
                return frame  # one column, or one that frame_parts does not find
            return self._join_columns(frame, columns)
        chosen: list[str] = []
        for name in self.candidates:
            if frame[name].nunique() == len(frame) > 1:
                self.left_out[name] = "differs in every row"
            elif not chosen:
                chosen = [name]
            elif (frame.groupby(chosen)[name].nunique() <= 1).all():
                self.left_out[name] = "same throughout each series"
            elif MIN_SERIES_ROWS * frame.groupby([*chosen, name]).ngroups <= len(frame):
                chosen.append(name)  # trials counted anew for each subject
        if len(chosen) > 1:
            return self._join_columns(frame, [name for name in frame.columns if name in chosen])
        self.series = chosen[0] if chosen else None
        return frame if chosen else self._split_at_restarts(frame)

    def _join_columns(self, frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
        """Join columns into one; blank where one of them is, which frame_parts refuses."""
        self.series = ",".join(columns)
        first, *rest = [frame[name].astype(str).mask(frame[name].isna(), "") for name in columns]
        joined, blank = first, first == ""
        for part in rest:
            joined, blank = joined + "/" + part, blank | (part == "")
        return frame.assign(**{self.series: joined.mask(blank, "")})

    def _split_at_restarts(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Split recordings without a name where time goes back."""
        clock = self.time
        if clock is None or clock not in frame or not frame[clock].duplicated().any():
            return frame
        try:
            number = (frame[clock] < frame[clock].shift()).cumsum()
        except TypeError:  # parse_time reports what is wrong with these times
            return frame
        if frame.assign(**{" ": number}).duplicated([" ", clock]).any():
            return frame
        self.series, self.restarts = " ", True
        return frame.assign(**{" ": number.astype(str)})

    def _is_channel(self, frame: pd.DataFrame, name: str) -> bool:
        """Tell whether a column can be a channel; if not, note why."""
        import pandas as pd

        column = frame[name]
        if not pd.api.types.is_numeric_dtype(column.dtype):
            column = pd.to_numeric(column.astype(str), errors="coerce")
        if frame[name].isna().all():
            self.left_out[name] = "empty"
        elif column.isna().all():  # a single number among text is an error that is named
            self.left_out[name] = "text"
        elif _without_unit(name) in CLOCKS and self._increases(frame, column):
            self.left_out[name] = "another clock"
        return name not in self.left_out

    def _increases(self, frame: pd.DataFrame, column: pd.Series) -> bool:
        """Tell whether a column increases from row to row, in every series."""
        one = self.series is None or self.series not in frame
        steps = column.diff() if one else column.groupby(frame[self.series]).diff()
        return bool((steps.dropna() > 0).all())

    def notes(self) -> dict[str, str]:
        """Describe the column of each role, how it was found, and what was left out."""
        notes = {}
        for role in ROLES:
            name = getattr(self, role)
            source = "" if self.given.get(role) else " (detected)"
            source = " (as in the fit)" if role in self.from_model else source
            notes[role] = f"{role} = {name}{source}" if name else f"no {role}"
        if self.time is None:
            notes["time"] = "no time (rows are counted)"
        if self.restarts:
            notes["series"] = f"a new series wherever {self.time} goes back (detected)"
        if self.left_out:
            columns = ", ".join(f"{name} ({why})" for name, why in self.left_out.items())
            notes["left out"] = f"left out: {columns}"
        return notes


def _without_unit(name: str) -> str:
    """Lower the name of a column and drop its unit, as in Time (s), t_ms or time [min]."""
    return re.sub(r"\s*[\[(].*[\])]$|_(s|sec|ms|us|ns|min|h)$", "", name.lower()).strip()


def _split_names(name: str | None) -> list[str]:
    """Split the names of columns that name the series together, as in subject,trial."""
    return [part.strip() for part in name.split(",")] if name else []


def frame_parts(
    frame: pd.DataFrame,
    roles: Roles,
    source: str = "DataFrame",
    row_name: Callable[[int], str] = "row {}".format,
) -> Parts:
    """Read a long-format frame; the channels default to all columns without another role."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise DataError(f"a pandas DataFrame is needed, not {type(frame).__name__}", where=source)
    if not len(frame):
        raise DataError("there are no rows", where=source, fix="give at least one row of data")
    frame = with_trimmed_header(with_index_columns(frame))
    refuse_repeated(frame.columns, "column name", source)
    roles = _trimmed_roles(roles)
    channels = _channels(frame, roles, source)
    time, series, regime, group = (
        roles.get("time"), roles.get("series"), roles.get("regime"), roles.get("group"),
    )  # fmt: skip
    frame = with_trimmed_names(frame, [series, regime, group], source)
    missing = None if roles.get("missing") == "error" else roles.get("missing")

    def column_name(column: int | str) -> str:
        return f"column {channels[column] if isinstance(column, int) else column!r}"

    locator = Locator(source, row_name, column_name)
    parts = Parts(
        values=np.stack([_numbers(frame[c], k, locator) for k, c in enumerate(channels)], axis=1),
        offsets=np.array([0, len(frame)]),
        names=np.array(["0"]),
        time=None if time is None else parse_time(frame[time], time, locator),
        codes=None,
        regimes=(),
        channels=tuple(channels),
        gap=roles.get("gap"),
        source=source,
        groups=None,
        preparation=Preparation(time, series, regime, group, missing),
    )
    if regime is not None:
        labels = encode_regimes(frame[regime], column_name(regime), source)
        parts["codes"], parts["regimes"] = labels
    owner = None
    if series is not None:
        owner, names = encode_names(frame[series])
        fix = "fill it or remove the row"
        locator.refuse(
            owner < 0, lambda row: f"no series name in {locator.cell(row, series)}", fix
        )
        parts["names"] = np.array(names, dtype=np.str_)
        parts["offsets"] = np.cumsum([0, *np.bincount(owner)])
    if group is not None:
        rows = np.zeros(len(frame), int) if owner is None else owner
        parts["groups"] = _groups(frame[group], rows, group, locator)
    return finish(parts, roles.get("missing"), locator, owner)


def _groups(column: pd.Series, owner: np.ndarray, name: str, locator: Locator) -> np.ndarray:
    """Return the group of each series, which must be the same in all of its rows."""
    codes, found = encode_names(column)
    fix = "fill it or remove the row"
    locator.refuse(codes < 0, lambda row: f"no group in {locator.cell(row, name)}", fix)
    _, first_rows = np.unique(owner, return_index=True)
    of_series = codes[first_rows]
    locator.refuse(
        codes != of_series[owner],
        lambda row: f"a second group of one series in {locator.cell(row, name)}",
        "give each series one group, or name the column that tells the series apart",
    )
    return np.array(found, dtype=np.str_)[of_series]


def with_index_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame in which named levels of the index are columns, too.

    They can name the time or the series, but become channels only if they are asked for.
    """
    names = list(frame.index.names)
    levels = [n for n in names if n is not None and n not in frame.columns and names.count(n) == 1]
    if not levels:
        return frame
    frame = frame.reset_index(level=levels).reset_index(drop=True)
    frame.attrs = {**frame.attrs, INDEX: [str(name).strip(BLANKS) for name in levels]}
    return frame


def with_trimmed_header(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose columns are named by text without blanks around it."""
    labels = [str(label) for label in frame.columns]
    return frame.set_axis([label.strip(BLANKS) or label for label in labels], axis=1)


def with_trimmed_names(
    frame: pd.DataFrame, columns: Sequence[str | None], source: str
) -> pd.DataFrame:
    """Return a frame without blanks around the names in these columns."""
    for name in dict.fromkeys(name for name in columns if name in frame):
        column = frame[name]
        clean = trimmed(column, f"column {name!r}", source)
        frame = frame if clean is column else frame.assign(**{str(name): clean})
    return frame


def _trimmed_roles(roles: Roles) -> Roles:
    """Return roles that name columns as `with_trimmed_header` does."""

    def clean(name: str) -> str:
        return str(name).strip(BLANKS) or str(name)

    out = roles.copy()
    for role in ("time", "series", "regime", "group"):
        if isinstance(name := roles.get(role), str):
            out[role] = clean(name)
    chosen = roles.get("channels")
    if chosen is not None:
        out["channels"] = [clean(n) for n in ([chosen] if isinstance(chosen, str) else chosen)]
    return out


def _channels(frame: pd.DataFrame, roles: Roles, source: str) -> list[str]:
    """Check every column that was asked for; the channels default to all the others."""
    columns, from_index = list(frame.columns), frame.attrs.get(INDEX, [])
    keys = {role: roles.get(role) for role in ("time", "series", "regime", "group")}
    chosen = roles.get("channels")
    if chosen is None:
        chosen = [name for name in columns if name not in {*keys.values(), *from_index}]
        if "" in chosen:
            what = f"column {columns.index('') + 1} has no name"
            raise DataError(what, where=source, fix="name it, or pass the channels to use")
    wanted = list(chosen)
    known = f"the columns are {listed(columns)}"
    for role, name in [*keys.items(), *(("channel", name) for name in wanted)]:
        if name is not None and name not in columns:
            what = f"there is no column {shown(name)} (asked for as {role})"
            raise MissingColumn(str(name), role, what, where=source, fix=known)
    if not wanted:
        raise DataError("no channels are left", where=source, fix=known)
    return wanted


def _numbers(column: pd.Series, channel: int, locator: Locator) -> np.ndarray:
    """Return a column as a real array; text is parsed."""
    import pandas as pd

    if pd.api.types.is_complex_dtype(column.dtype):
        what = f"{locator.column(channel)} holds complex numbers"
        raise locator.error(what, "split it into two real columns")
    if column.dtype == bool:
        return column.to_numpy(dtype=np.uint8)
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iuf":
        return column.to_numpy()
    if pd.api.types.is_numeric_dtype(column.dtype):  # nullable and arrow columns
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    texts = column.astype(str).replace({"True": "1", "False": "0"})
    found = pd.to_numeric(texts, errors="coerce")
    if found.dtype == object:  # integers that are too long for a float
        found = texts.where(found.notna(), "nan").astype(np.float64)
    numbers = found.to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.isnan(numbers) & column.notna().to_numpy() & (texts.str.strip() != "").to_numpy()

    def wrong(row: int) -> str:
        return f"{shown(column.iloc[row])} in {locator.cell(row, channel)} is not a number"

    locator.refuse(bad, wrong, "correct it, or leave the column out by naming the channels")
    return numbers
