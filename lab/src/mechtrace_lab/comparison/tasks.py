"""Tasks of a comparison: simulated worlds, or the user's labelled recordings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mechtrace import worlds
from mechtrace.data import Panel, find_runs, training_runs
from mechtrace.errors import ConfigError, DataError
from mechtrace.evaluate import TruthTable
from mechtrace.worlds import Simulation

from ..baselines.protocol import Truth

#: Pure recordings of each regime that judge, and that oracle selection looks at.
TEST_SERIES, SELECTION_SERIES = 100, 20
#: Switches spliced from held-out recordings, and the longest stretch on either side of one.
SPLICES, SPLICE_ROWS = 100, 200


@dataclass(frozen=True, eq=False)
class KnownTransition:
    """Unlabelled recordings with known weights."""

    name: str
    panel: Panel
    weights: Sequence[np.ndarray]  # (T, K) of each series
    shared: bool  # one schedule, one length: they can be pooled
    simulation: Simulation | None = None


@dataclass(frozen=True, eq=False)
class Splices:
    """Two segments of different regimes joined: the regime switches at a known row."""

    panel: Panel
    cut: np.ndarray  # (n,)
    before: np.ndarray  # (n,) regime numbers
    after: np.ndarray


@dataclass(frozen=True, eq=False)
class TaskData:
    """Training and test data of one cell."""

    regimes: tuple[str, ...]
    learn: Panel
    pure: Panel  # labelled, not learned from
    pure_simulation: Simulation | None = None
    truth: Truth | None = None
    transitions: tuple[KnownTransition, ...] = ()
    splices: Splices | None = None
    new: Panel | None = None
    pool_new: bool = False


@dataclass(frozen=True)
class WorldTask:
    """A simulated world; the seed of a cell draws and simulates it."""

    world: str = "paper"
    regimes: int = 5
    series: int = 2000
    trials: int = 200
    active: int = 3
    schedules: tuple[str, ...] = ("simple",)
    kind: ClassVar[str] = "world"

    def __post_init__(self) -> None:
        """Raise on an impossible world."""
        for name in self.schedules:
            worlds.make_schedule(name, 2, 2)
        if self.world not in worlds.PRESETS:
            fix = f"use one of {', '.join(worlds.PRESETS)}"
            raise ConfigError(f"unknown world {self.world!r}", fix=fix)
        if self.regimes < 2:
            raise ConfigError(f"{self.regimes} regimes", fix="use at least two")
        if not 2 <= self.active <= self.regimes:
            what = f"{self.active} of {self.regimes} regimes cannot be active"
            raise ConfigError(what, fix=f"use 2 to {self.regimes}")

    @property
    def label(self) -> str:
        """A short name."""
        return self.world

    def about(self) -> dict[str, Any]:
        """Description that identifies the data."""
        return {"kind": self.kind} | asdict(self)

    def data(self, seed: int) -> TaskData:
        """Simulate the world of this seed."""
        drawn = worlds.make(self.world, seed=seed, regimes=self.regimes)
        chosen = np.linspace(0, self.regimes - 1, self.active).round().astype(int)
        active = np.unique(chosen).tolist()
        pure, select = (
            drawn.simulate(TEST_SERIES, seed=1),
            drawn.simulate(SELECTION_SERIES, seed=3),
        )
        transitions = []
        for name in self.schedules:
            found = drawn.transition(name, series=self.trials, active=active, seed=1)
            transitions.append(KnownTransition(name, found.panel, list(found.alpha), True, found))
        return TaskData(
            regimes=drawn.regimes,
            learn=drawn.simulate(self.series).panel,
            pure=pure.panel,
            pure_simulation=pure,
            truth=Truth(select.panel, list(select.latents)),
            transitions=tuple(transitions),
        )


@dataclass(frozen=True)
class DataTask:
    """Labelled recordings; the seed of a cell decides which are held out."""

    folder: Path  # where `panel.npz` and `new.npz` lie while the comparison runs
    facts: dict[str, Any] = field(hash=False)  # what identifies the data
    lags: int = 2
    share: float = 0.25
    pool: bool = False
    kind: ClassVar[str] = "data"
    label: ClassVar[str] = "data"

    @classmethod
    def of(
        cls,
        panel: Panel,
        folder: Path,
        *,
        new: Panel | None = None,
        truth: Sequence[np.ndarray] | None = None,
        lags: int = 2,
        share: float = 0.25,
        pool: bool = False,
    ) -> DataTask:
        """Check the recordings and store them for the processes of the cells."""
        if not 0 < share < 1:
            raise ConfigError(f"a share of {share} cannot be held out", fix="use 0.1 to 0.5")
        _held_out(panel, lags, share, seed=0)
        if pool and new is not None and len(set(new.lengths.tolist())) > 1:
            what = "recordings of several lengths cannot be pooled"
            raise DataError(what, where=new.source, fix="cut them to one length, or do not pool")
        panel.to_npz(folder / "panel.npz")
        facts: dict[str, Any] = {
            "source": panel.source, "fingerprint": panel.fingerprint(), "series": len(panel),
            "rows": panel.rows, "regimes": list(panel.regimes), "lags": lags, "share": share,
            "not_held_out": _alone(panel, lags),
        }  # fmt: skip
        if new is not None:
            new = new.without_labels()
            new.to_npz(folder / "new.npz")
            facts["new"] = {"source": new.source, "fingerprint": new.fingerprint(), "pool": pool}
        if truth is not None:
            rows = np.concatenate(list(truth)).astype(float)
            np.save(folder / "truth.npy", rows)
            facts["truth"] = Panel.from_arrays([rows]).fingerprint()
        return cls(folder, facts, lags, share, pool)

    def about(self) -> dict[str, Any]:
        """Description that identifies the data."""
        return {"kind": self.kind} | self.facts

    def data(self, seed: int) -> TaskData:
        """Split the recordings by series."""
        source = self.facts["source"]
        panel = replace(Panel.from_npz(self.folder / "panel.npz"), source=source)
        held = _held_out(panel, self.lags, self.share, seed)
        pure = panel[held]
        new, transitions = None, []
        if (self.folder / "new.npz").exists():
            new = Panel.from_npz(self.folder / "new.npz")
            new = replace(new, source=self.facts["new"]["source"])
        if new is not None and (self.folder / "truth.npy").exists():
            weights = np.split(np.load(self.folder / "truth.npy"), new.offsets[1:-1])
            transitions = [KnownTransition("new", new, weights, self.pool)]
        return TaskData(
            regimes=panel.regimes,
            learn=panel[~held],
            pure=pure,
            transitions=tuple(transitions),
            splices=spliced(pure, self.lags, seed),
            new=new,
            pool_new=self.pool,
        )


def _held_out(panel: Panel, lags: int, share: float, seed: int) -> np.ndarray:
    """Choose series to hold out, never the only one of a regime.

    Series of one group are held out together.
    """
    runs = training_runs(panel, lags)
    rng = np.random.default_rng([seed, 11])
    has = np.zeros((len(panel), len(panel.regimes)), dtype=bool)
    has[runs.series, runs.regime] = True
    held = np.zeros(len(panel), dtype=bool)
    for code in range(len(panel.regimes)):
        mine = np.flatnonzero(has[:, code])
        want = min(max(1, round(share * len(mine))), len(mine) - 1)
        for one in rng.permutation(mine):
            if held[mine].sum() >= want:
                break
            together = np.arange(len(panel)) == one
            if panel.groups is not None:
                together = panel.groups == panel.groups[one]
            if has[~(held | together)].any(axis=0).all():
                held |= together
    if not held.any():
        grouped = panel.groups is not None
        raise DataError(
            "no recording can be held out, because each is the only one of a regime"
            + (", or of a group without which a regime is missing" if grouped else ""),
            where=panel.source,
            fix="give two recordings of a regime at least, or name the column that tells"
            " recordings apart",
        )
    return held


def _alone(panel: Panel, lags: int) -> list[str]:
    """Regimes with one recording, which cannot be held out."""
    runs = training_runs(panel, lags)
    counts = [len(np.unique(runs.series[runs.regime == k])) for k in range(len(panel.regimes))]
    return [name for name, count in zip(panel.regimes, counts, strict=True) if count == 1]


def spliced(pure: Panel, lags: int, seed: int) -> Splices | None:
    """Pairs of stretches of different regimes from different series; None if there are none."""
    runs = find_runs(pure, by_regime=True)
    runs = runs.where(runs.length > lags)
    rng = np.random.default_rng([seed, 13])
    pairs = [
        (i, j)
        for i, j in rng.integers(len(runs), size=(20 * SPLICES, 2)).tolist()
        if runs.regime[i] != runs.regime[j] and runs.series[i] != runs.series[j]
    ][:SPLICES] if len(runs) else []  # fmt: skip
    if not pairs:
        return None
    values, cuts = [], []
    for pair in pairs:
        parts = []
        for run in pair:
            rows = min(int(runs.length[run]), SPLICE_ROWS)
            start = int(runs.start[run]) + int(rng.integers(runs.length[run] - rows + 1))
            parts.append(pure.values[start : start + rows])
        values.append(np.concatenate(parts))
        cuts.append(len(parts[0]))
    lengths = [len(one) for one in values]
    step = 1.0 if pure.time is None else pure.usual_step
    panel = Panel(
        values=np.concatenate(values),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        names=np.array([f"splice {i}" for i in range(len(values))]),
        time=None if step == 1.0 else np.concatenate([step * np.arange(n) for n in lengths]),
        channels=pure.channels,
        source=f"spliced from {pure.source}",
    )
    first, second = np.array(pairs).T
    return Splices(panel, np.array(cuts), runs.regime[first], runs.regime[second])


def truth_for(new: Panel, table: TruthTable) -> list[np.ndarray]:
    """Look up the known weights of every row of the new recordings by series and time."""
    found = []
    for i, name in enumerate(new.names.tolist()):
        if not table.shared and name not in table.panel.names.tolist():
            what = f"there is no truth for the recording {name!r}"
            fix = "name its recordings as in the data"
            raise DataError(what, where=table.panel.source, fix=fix)
        time = new.time_of(i)
        found.append(table.of(name, time))
        unknown = ~np.isfinite(found[-1]).all(axis=1)
        if unknown.any():
            what = f"there is no truth for {name!r} at time {time[int(unknown.argmax())]}"
            fix = "give a row for each row of the data"
            raise DataError(what, where=table.panel.source, fix=fix)
    return found
