"""The roles of the columns of a table in long format: from names first, then from the cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..errors import DataError
from .cells import name_text, shown
from .column_names import (
    MARK_WORDS,
    ROLES,
    USUAL_NAMES,
    detect_roles,
    names_clock,
    names_group,
    names_regime,
    names_things,
    split_names,
    usual,
    without_unit,
    words,
)
from .long_format import INDEX
from .structure import MAX_REGIMES_IN_TABLE, MIN_BLOCK, Structure, as_numbers
from .time_columns import date_and_clock, find_time, join_cells

if TYPE_CHECKING:
    import pandas as pd

#: Groups that are found are held out as a whole only if there are as many as this.
MIN_GROUPS = 3
#: A column that tells the regime in fewer rows than this may do so by chance.
MIN_ROWS = 20


@dataclass
class ColumnRoles:
    """The roles of the columns of one table: from the header first, then from the cells."""

    given: dict[str, str | None]
    time: str | None
    series: str | None
    regime: str | None
    channels: list[str] | None
    candidates: list[str]  # for the series, if the first does not tell all rows apart
    group: str | None = None
    labelled: bool = True  # whether a regime and groups are looked for
    from_model: frozenset[str] = frozenset()  # roles given by the model that the table is for
    left_out: dict[str, str] = field(default_factory=dict)  # columns, and why
    restarts: bool = False  # whether a new series begins wherever time goes back
    sources: dict[str, str] = field(default_factory=dict)  # how a role was found, if not by name

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
            if not given.get(role) and name and (name in free or set(split_names(name)) <= {*free})
        }
        given = given | found
        roles = detect_roles(free, given)
        if labelled and not roles["regime"]:
            taken = {name for name in roles.values() if name}
            named = [name for name in free if name not in taken and names_regime(name)]
            roles["regime"] = next(iter(named), None)
        if not labelled:
            roles["regime"] = None
        taken = {name for role, name in roles.items() if name and role != "series"}
        candidates = [] if given.get("series") else usual(free, "series", taken)
        if not given.get("series"):
            named = [name for name in free if names_things(name) and name not in taken]
            candidates += [name for name in named if name not in candidates]
        chosen = None if channels is None else list(channels)
        return cls(
            given, roles["time"], roles["series"], roles["regime"], chosen, candidates, group,
            labelled, from_model=frozenset(found),
        )  # fmt: skip

    def text_columns(self) -> list[str | None]:
        """List the columns whose cells are names, even where they look like numbers."""
        return [self.regime, self.group, *self.candidates, *split_names(self.series)]

    def resolve(self, frame: pd.DataFrame, source: str = "DataFrame") -> pd.DataFrame:
        """Revise detected roles by the cells, and list the channels."""
        if self.channels is None:
            frame = self._without_nameless(frame)
        if frame.columns.has_duplicates:
            return frame  # refused by frame_parts
        frame = self._resolve_time(frame)
        seen = Structure(frame, self.time)
        self._resolve_regime(seen, source)
        frame = self._resolve_series(frame, seen, source)
        owner = self._owner(frame)
        self._resolve_group(seen, owner)
        if self.channels is None:
            keys = {self.time, self.series, self.regime, self.group, *self.left_out}
            keys |= {*split_names(self.series), *split_names(self.time)}
            keys |= {*frame.attrs.get(INDEX, [])}
            free = [name for name in frame.columns if name not in keys]
            self.channels = [name for name in free if self._is_channel(seen, name, owner)]
        return frame

    def _without_nameless(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Drop columns without a name: an index by pandas, or a separator at the line end."""
        nameless = [place for place, name in enumerate(frame.columns) if name == ""]
        filled = frame.notna().any().to_numpy()
        self.left_out |= {f"column {k + 1}": "has no name" for k in nameless if filled[k]}
        return frame.loc[:, [name != "" for name in frame.columns]] if nameless else frame

    # --- time ------------------------------------------------------------------------------

    def _resolve_time(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Find the time by its cells where no name tells it; join a date and a time of day."""
        if self.time is None:
            unnamed = [name for name in self._free(frame) if name not in self.candidates]
            self.time = find_time(frame, unnamed)
            if self.time:
                self.sources["time"] = "detected by its cells"
        parts = split_names(self.time)
        if self.time not in frame and len(parts) > 1 and set(parts) <= set(frame.columns):
            return join_cells(frame, parts)
        if self.given.get("time") or self.time is None:
            return frame
        pair = date_and_clock(frame, self.time, self._free(frame))
        if not pair:
            return frame
        self.time = ",".join(pair)
        return join_cells(frame, pair)

    def _free(self, frame: pd.DataFrame) -> list[str]:
        """List the columns that are neither channels nor the regime."""
        return [n for n in frame.columns if n not in {*(self.channels or ()), self.regime}]

    # --- regime ----------------------------------------------------------------------------

    def _resolve_regime(self, seen: Structure, source: str) -> None:
        """Take the first column named like a regime whose cells fit, else one by its cells."""
        if not self.labelled or self.given.get("regime") or self.channels is not None:
            if self.regime in seen.frame and not self.given.get("regime"):
                assert self.regime is not None
                many = len(seen.values(self.regime)) > MAX_REGIMES_IN_TABLE
                self.regime = None if many else self.regime
            return
        taken = {self.time, *split_names(self.time), self.group}
        free = [n for n in seen.frame.columns if n not in taken and n not in self.candidates]
        free = [n for n in free if n not in seen.frame.attrs.get(INDEX, [])]
        first = [name for name in usual(free, "regime", set()) if seen.is_label(name)]
        named = [n for n in free if names_regime(n) and n not in first and seen.is_label(n)]
        words = [name for name in named if seen.is_text(name)]
        told = [name for name in [*first, *words] if len(seen.values(name)) > 1]
        self.regime = next(iter([*told, *first]), None)
        if told:
            return
        found = [n for n in free if seen.labels_regimes(n) and not names_group(n)]
        again = [name for name in found if not seen.in_one_block_each(name)]
        found = again or found  # labels come back, names of recordings do not
        if len(found) > 1:
            options = " or ".join(f"--regime {_word(name)}" for name in found)
            names = " and ".join(shown(name) for name in found)
            what = f"the columns {names} may both hold the regime"
            raise DataError(what, where=source, fix=f"say {options}")
        if found:
            self.regime, self.sources["regime"] = found[0], "detected: few words in blocks"
            return
        numbers = [name for name in named if len(seen.values(name)) > 1]
        if numbers and self.regime is None:
            changes = seen.changes(numbers[0])
            if not seen.pauses.any() or not seen.pauses[changes].all():
                raise self._question(seen, numbers[0], "may hold the regime", "--regime", source)
            self.regime = numbers[0]
        self.regime = self.regime or next(iter(words), None)

    # --- series ----------------------------------------------------------------------------

    def _resolve_series(self, frame: pd.DataFrame, seen: Structure, source: str) -> pd.DataFrame:
        """Find one column, several that together tell the rows apart, or restarts of time."""
        if self.given.get("series"):
            columns = split_names(self.series)
            if self.series not in frame and set(columns) <= set(frame.columns):
                frame = self._join_columns(frame, columns)
            return self._split_at_restarts(frame) if "series" in self.from_model else frame
        chosen: list[str] = []
        candidates = [name for name in self.candidates if name != self.regime]
        varied = [name for name in candidates if frame[name].nunique() > 1]
        for name in [*varied, *(name for name in candidates if name not in varied)]:
            if frame[name].nunique() == len(frame) > 1:
                self.left_out[name] = "differs in every row"
            elif seen.counts_rows(name) and not seen.takes_turns(name):
                continue  # a clock
            elif name not in varied and names_group(name):
                continue  # the machine or person of the whole table
            elif seen.has_fractions(name) or not (self._is_usual(name) or seen.may_name(name)):
                continue  # a measurement, such as NO
            elif not chosen:
                chosen = [name]
            elif (frame.groupby(chosen)[name].nunique() <= 1).all():
                self.left_out[name] = "same throughout each series"
            elif MIN_BLOCK * frame.groupby([*chosen, name]).ngroups <= len(frame):
                chosen.append(name)  # trials counted anew for each subject
        if self.labelled and all(map(names_group, chosen)):  # machines hold recordings
            chosen = self._by_structure(seen, source) or chosen
        self.series = chosen[0] if chosen else None
        if len(chosen) > 1:
            names = [name for name in frame.columns if name in chosen]
            frame = self._join_columns(frame, names)
        return self._split_at_restarts(frame)

    def _is_usual(self, name: str) -> bool:
        return without_unit(name) in USUAL_NAMES["series"]

    def _by_structure(self, seen: Structure, source: str) -> list[str]:
        """Find a column whose blocks are recordings, whatever its name is."""
        taken = {self.time, *split_names(self.time), self.regime, self.group, *self.left_out}
        taken |= {*self.candidates, *(self.channels or ()), *seen.frame.attrs.get(INDEX, [])}
        free = [name for name in seen.frame.columns if name not in taken]
        told = {name: seen.names_recordings(name, self.regime) for name in free}
        sure = [name for name, tells in told.items() if tells]
        if sure:
            exact = seen.restarts.any() and (seen.changes(sure[0]) == seen.restarts).all()
            how = "the time goes back where it changes" if exact else "blocks of rows"
            self.sources["series"] = f"detected: {how}"
            return sure[:1]
        doubtful = [n for n, tells in told.items() if tells is None and not seen.is_text(n)]
        if doubtful and self.channels is None:
            what = "may name the recordings"
            raise self._question(seen, doubtful[0], what, "--series", source)
        return []

    def _question(
        self, seen: Structure, name: str, what: str, option: str, source: str
    ) -> DataError:
        """Return the question whether a column has a role or is a sensor, with the options."""
        taken = {self.time, *split_names(self.time), self.series, self.regime, self.group}
        free = [n for n in seen.frame.columns if n not in taken | {*self.candidates}]
        others = [n for n in free if n == name or self._is_channel(seen, n, None)]
        fix = f"say {option} {_word(name)} or --channels {_word(','.join(others))}"
        return DataError(f"column {shown(name)} {what} or be a sensor", where=source, fix=fix)

    def _join_columns(self, frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
        """Join columns into one; blank where one of them is, which frame_parts refuses."""
        self.series = ",".join(columns)
        first, *rest = [frame[name].astype(str).mask(frame[name].isna(), "") for name in columns]
        joined, blank = first, first == ""
        for part in rest:
            joined, blank = joined + "/" + part, blank | (part == "")
        return frame.assign(**{self.series: joined.mask(blank, "")})

    def _split_at_restarts(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Split recordings where time goes back, if times would appear twice otherwise."""
        import pandas as pd

        clock = self.time
        if clock is None or clock not in frame or self.series == clock:
            return frame
        keys = [clock] if self.series is None else [self.series, clock]
        if not frame.duplicated(keys).any():
            return frame
        stamps = Structure(frame, clock).clock
        if stamps is None:  # parse_time reports what is wrong with these times
            return frame
        before = np.diff(stamps, prepend=stamps[0]) < 0
        name = pd.Series(before.cumsum().astype(str), frame.index)
        if self.series is not None:
            starts = (frame[self.series] != frame[self.series].shift()).to_numpy()
            count = (before & ~starts).cumsum()
            count = 1 + count - np.maximum.accumulate(np.where(starts, count, 0))
            name = frame[self.series].astype(str) + "/" + pd.Series(count, frame.index).astype(str)
        split = frame.assign(**{" ": name})
        if split.duplicated([" ", clock]).any():
            return frame
        self.sources["series"] = (
            f"a new series wherever {clock} goes back (detected)"
            if self.series is None
            else f"series = {self.series} (a new one wherever {clock} goes back)"
        )
        self.restarts, self.series = True, " "
        return split

    def _owner(self, frame: pd.DataFrame) -> np.ndarray | None:
        """Code the series of each row; None if there is one series."""
        import pandas as pd

        if self.series is None or self.series not in frame:
            return None
        owner = pd.factorize(frame[self.series])[0]
        return owner if owner.max(initial=0) > 0 else None

    # --- group and channels ----------------------------------------------------------------

    def _resolve_group(self, seen: Structure, owner: np.ndarray | None) -> None:
        """Find what several recordings share by name: a machine, a person."""
        if self.group is not None or owner is None or not self.labelled:
            return
        taken = {self.time, *split_names(self.time), self.regime, *(self.channels or ())}
        series = int(owner.max()) + 1
        for name in seen.frame.columns:
            if name in taken or not names_group(name, perhaps=True):
                continue
            count = len(seen.values(name))
            sure = seen.is_text(name) or seen.is_whole(name)
            if MIN_GROUPS <= count < series and sure and seen.same_within(name, owner):
                self.group, self.sources["group"] = name, "detected"
                self.left_out.pop(name, None)
                return

    def _is_channel(self, seen: Structure, name: str, owner: np.ndarray | None) -> bool:
        """Tell whether a column can be a channel; if not, note why."""
        column = seen.frame[name]
        numbers = as_numbers(column)
        known = name in self.left_out
        if column.isna().all():
            self.left_out[name] = "empty"
        elif numbers.isna().all():  # a single number among text is an error that is named
            self.left_out[name] = "text"
        elif names_clock(name) and seen.increases(name, owner):
            self.left_out[name] = "another clock"
        elif self.regime in seen.frame and self._is_mark(seen, name):
            pass
        elif owner is not None and seen.same_within(name, owner):
            self.left_out[name] = "same throughout each series"
        elif names_things(name) and seen.is_whole(name) and not seen.wanders(name):
            self.left_out[name] = "counts or names things"
        return known or name not in self.left_out

    def _is_mark(self, seen: Structure, name: str) -> bool:
        """Leave out what is derived from the regime, or marks rows beside it."""
        regime, several = self.regime, len(seen.frame) > MIN_ROWS
        assert regime is not None
        if not several or not seen.is_whole(name) or len(seen.values(name)) > MAX_REGIMES_IN_TABLE:
            return False
        if seen.follows(name, regime):
            self.left_out[name] = "tells the regime"
        elif seen.marks_rows(name) or (
            len(seen.values(name)) == 2 and MARK_WORDS & {*words(name)}
        ):
            self.left_out[name] = "marks rows"
        return name in self.left_out

    def constants(self, frame: pd.DataFrame) -> dict[str, str]:
        """Return the cells of columns without a role that are the same in all rows."""
        roles = {self.time, self.series, self.regime, self.group, *(self.channels or ())}
        found = {}
        for name in frame.columns:
            if name in roles or name in split_names(self.time) or frame[name].nunique() != 1:
                continue
            cell = frame[name].iloc[0]
            if frame[name].notna().all() and not (isinstance(cell, float) and cell % 1):
                found[name] = name_text(cell).strip()
        return found

    def notes(self) -> dict[str, str]:
        """Describe the column of each role, how it was found, and what was left out."""
        notes = {}
        for role in (*ROLES, "group"):
            name = getattr(self, role)
            source = "" if self.given.get(role) else f" ({self.sources.get(role, 'detected')})"
            source = " (as in the fit)" if role in self.from_model else source
            if role == "group" and role not in self.sources:
                if name:
                    notes[role] = f"group = {name}"
                continue
            notes[role] = f"{role} = {name}{source}" if name else f"no {role}"
        if self.time is None:
            notes["time"] = "no time (rows are counted)"
        if self.restarts:
            notes["series"] = self.sources["series"]
        if self.left_out:
            columns = ", ".join(f"{name} ({why})" for name, why in self.left_out.items())
            notes["left out"] = f"left out: {columns}"
        return notes


def _word(text: str) -> str:
    """Quote what a shell would take for several words."""
    import shlex

    return shlex.quote(text)
