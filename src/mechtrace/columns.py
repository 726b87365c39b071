"""Guess which columns of a table hold time, series and regime, and say so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

#: Names people give these columns, in order of preference.
USUAL_NAMES = {
    "time": ("time", "t", "timestamp", "datetime", "date", "seconds", "elapsed", "frame"),
    "series": ("series", "run", "trial", "recording", "sequence", "subject", "id", "unit"),
    "regime": (
        "regime",
        "mode",
        "label",
        "state",
        "condition",
        "phase",
        "class",
        "activity",
        "stage",
    ),
}
ROLES = tuple(USUAL_NAMES)
#: Columns with these names that only rise are not measurements.
CLOCKS = {*USUAL_NAMES["time"], *USUAL_NAMES["series"], "index", "sample", "step"}
#: Columns that together would make shorter series than this on average do not name them.
LEAST_ROWS = 3
#: A column with more different values than this is not guessed to name the regime.
MANY_REGIMES = 100


def guess_columns(names: Sequence[str], given: dict[str, str | None]) -> dict[str, str | None]:
    """Fill the roles that were not given from the usual names.

    >>> guess_columns(["T", "run", "x1"], {"time": None, "series": None, "regime": None})
    {'time': 'T', 'series': 'run', 'regime': None}
    """
    taken = {name for name in given.values() if name is not None}
    return {
        role: given.get(role) or next(iter(_usual(names, role, taken)), None) for role in ROLES
    }


def _usual(names: Sequence[str], role: str, taken: set[str]) -> list[str]:
    """The columns with a usual name of this role, the likeliest first."""
    lower = {_without_unit(name): name for name in reversed(names) if name not in taken}
    return [lower[name] for name in USUAL_NAMES[role] if name in lower]


@dataclass
class Columns:
    """The roles of the columns of one table: first from the header, then from the cells."""

    given: dict[str, str | None]
    time: str | None
    series: str | None
    regime: str | None
    channels: list[str] | None
    candidates: list[str]  # for the series, if its first guess does not tell all rows apart
    group: str | None = None  # never guessed; it may be one of the columns of the series
    left_out: dict[str, str] = field(default_factory=dict)
    restarts: bool = False

    @classmethod
    def of(
        cls,
        header: list[str],
        channels: Sequence[str] | None,
        labelled: bool,
        given: dict[str, str | None],
        group: str | None = None,
    ) -> Columns:
        """What the header alone suggests."""
        free = [name for name in header if name not in (channels or ())]
        roles = guess_columns(free, given)
        if not labelled:
            roles["regime"] = None
        taken = {name for role, name in roles.items() if name and role != "series"}
        candidates = [] if given.get("series") else _usual(free, "series", taken)
        chosen = None if channels is None else list(channels)
        return cls(
            given,
            roles["time"],
            roles["series"],
            roles["regime"],
            channels=chosen,
            candidates=candidates,
            group=group,
        )

    def names_wanted(self) -> list[str | None]:
        """Columns whose cells are names, even where they look like numbers."""
        return [self.regime, self.group, *self.candidates, *_several(self.series)]

    def settle(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Look at the cells: drop guesses that they contradict, and text among the channels."""
        if self.channels is None:
            frame = self._without_nameless(frame)
        if frame.columns.has_duplicates:
            return frame  # the reader refuses it
        guessed = self.regime in frame and not self.given.get("regime")
        if guessed and frame[self.regime].nunique() > MANY_REGIMES:
            self.regime = None  # a measurement, or text
        frame = self._settle_series(frame)
        if self.channels is None:
            keys = {self.time, self.series, self.regime, self.group, *self.left_out}
            keys |= set(_several(self.series))
            self.channels = [
                name for name in frame.columns if name not in keys and self._measures(frame, name)
            ]
        return frame

    def _without_nameless(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Without the index that pandas writes, and what a separator at the line end makes."""
        nameless = [place for place, name in enumerate(frame.columns) if name == ""]
        filled = frame.notna().any().to_numpy()
        self.left_out |= {f"column {k + 1}": "has no name" for k in nameless if filled[k]}
        return frame.loc[:, [name != "" for name in frame.columns]] if nameless else frame

    def _settle_series(self, frame: pd.DataFrame) -> pd.DataFrame:
        """One column, several that only together tell the rows apart, or restarts of the clock."""
        if self.given.get("series"):
            columns = _several(self.series)
            if self.series in frame or not set(columns) <= set(frame.columns):
                return frame  # one column, or one that the reader does not find
            return self._together(frame, columns)
        chosen: list[str] = []
        for name in self.candidates:
            if frame[name].nunique() == len(frame) > 1:
                self.left_out[name] = "differs in every row"
            elif not chosen:
                chosen = [name]
            elif (frame.groupby(chosen)[name].nunique() <= 1).all():
                self.left_out[name] = "same throughout each series"
            elif LEAST_ROWS * frame.groupby([*chosen, name]).ngroups <= len(frame):
                chosen.append(name)  # trials counted anew for each subject
        if len(chosen) > 1:
            return self._together(frame, [name for name in frame.columns if name in chosen])
        self.series = chosen[0] if chosen else None
        return frame if chosen else self._split_at_restarts(frame)

    def _together(self, frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
        """The columns joined into one; blank where one of them is, which the reader refuses."""
        self.series = ",".join(columns)
        first, *rest = [frame[name].astype(str).mask(frame[name].isna(), "") for name in columns]
        joined, blank = first, first == ""
        for part in rest:
            joined, blank = joined + "/" + part, blank | (part == "")
        return frame.assign(**{self.series: joined.mask(blank, "")})

    def _split_at_restarts(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Recordings one below the other without a name: the clock goes back where one ends."""
        clock = self.time
        if clock is None or clock not in frame or not frame[clock].duplicated().any():
            return frame
        try:
            number = (frame[clock] < frame[clock].shift()).cumsum()
        except TypeError:  # the reader says what is wrong with these times
            return frame
        if frame.assign(**{" ": number}).duplicated([" ", clock]).any():
            return frame
        self.series, self.restarts = " ", True
        return frame.assign(**{" ": number.astype(str)})

    def _measures(self, frame: pd.DataFrame, name: str) -> bool:
        """Whether a column can be a channel; if not, why."""
        import pandas as pd

        column = frame[name]
        if not pd.api.types.is_numeric_dtype(column.dtype):
            column = pd.to_numeric(column.astype(str), errors="coerce")
        if frame[name].isna().all():
            self.left_out[name] = "empty"
        elif column.isna().all():  # a single number among text is an error that is named
            self.left_out[name] = "text"
        elif _without_unit(name) in CLOCKS and self._only_rises(frame, column):
            self.left_out[name] = "another clock"
        return name not in self.left_out

    def _only_rises(self, frame: pd.DataFrame, column: pd.Series) -> bool:
        """Whether a column grows from row to row, in every series."""
        one = self.series is None or self.series not in frame
        steps = column.diff() if one else column.groupby(frame[self.series]).diff()
        return bool((steps.dropna() > 0).all())

    def said(self) -> dict[str, str]:
        """What plays which role, what was guessed and what was left out."""
        said = {}
        for role in ROLES:
            name = getattr(self, role)
            guessed = "" if self.given.get(role) else " (guessed)"
            said[role] = f"{role} = {name}{guessed}" if name else f"no {role}"
        if self.time is None:
            said["time"] = "no time (rows are counted)"
        if self.restarts:
            said["series"] = f"a new series wherever {self.time} goes back (guessed)"
        if self.left_out:
            columns = ", ".join(f"{name} ({why})" for name, why in self.left_out.items())
            said["left out"] = f"left out: {columns}"
        return said


def _without_unit(name: str) -> str:
    """The name of a column in small letters: of Time (s), t_ms or time [min] only the time."""
    return re.sub(r"\s*[\[(].*[\])]$|_(s|sec|ms|us|ns|min|h)$", "", name.lower()).strip()


def _several(name: str | None) -> list[str]:
    """Columns that name the series together, as in subject,trial."""
    return [part.strip() for part in name.split(",")] if name else []
