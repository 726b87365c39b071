"""Real recordings with proxies for the unknown truth."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mechtrace.data import Panel, PathLike
from mechtrace.errors import ConfigError, DataError
from mechtrace.io import listed

#: Names a folder that holds the data sets, each in a folder of its own name.
VARIABLE = "MECHTRACE_DATA"


@dataclass(frozen=True, eq=False)
class Recordings:
    """Recordings, with proxies for the truth at the same times."""

    panel: Panel
    proxies: Panel

    def __getitem__(self, chosen: np.ndarray | Sequence[str]) -> Recordings:
        """Select series by name, number or mask."""
        return Recordings(self.panel[chosen], self.proxies[chosen])

    @property
    def labels(self) -> list[str]:
        """The regime of each series, '' where it has none."""
        named = [self.panel.regime_names_of(i) for i in range(len(self.panel))]
        return ["" if one is None else str(one[0]) for one in named]

    @property
    def pure(self) -> Recordings:
        """Recordings of a known regime."""
        return self[np.array([label != "" for label in self.labels])]

    @property
    def new(self) -> Recordings:
        """Recordings without a regime: the transitions."""
        return self[np.array([label == "" for label in self.labels])]

    def column(self, name: str) -> list[np.ndarray]:
        """One of the proxies, for each series."""
        if name not in self.proxies.channels:
            fix = f"use one of {listed(self.proxies.channels)}"
            raise DataError(f"there is no {name!r} beside", where=self.panel.source, fix=fix)
        place = self.proxies.channels.index(name)
        return [values[:, place] for values in self.proxies.to_arrays()]


def data_folder(name: str, given: PathLike | None, command: str) -> Path:
    """Find the folder of a data set: the given one, or its own below $MECHTRACE_DATA."""
    root = os.environ.get(VARIABLE)
    folder = Path(given) if given is not None else Path(root) / name if root else None
    if folder is None:
        what = f"the data set {name} was not named"
        fix = f"give its folder or set {VARIABLE}; `{command}` says where it comes from"
        raise DataError(what, fix=fix)
    if not folder.is_dir():
        fix = f"`{command}` says where it comes from"
        raise DataError("there is no such folder", where=str(folder), fix=fix)
    return folder


def check_features(name: str, sets: Iterable[str]) -> None:
    """Raise unless there is such a set of channels."""
    if name not in sets:
        fix = f"use one of {', '.join(sets)}"
        raise ConfigError(f"there are no features {name!r}", fix=fix)
