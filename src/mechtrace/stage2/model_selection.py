"""Selection of observation models by the error of alpha on held-out series.

Pure series, and pseudo-transitions spliced from two of them, have a known alpha. The noise of a
model is measured on other series than its error. A likelihood ratio would reward experts that
extrapolate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._runtime.stochastic import generator
from ..data.segments import cumcount
from .inference import state_space
from .information import GaussianInformation
from .observation_models import (
    CHANNELS,
    MECHANISMS,
    PLAIN,
    Features,
    ObservationModel,
    canonical,
    centre_lag,
    known_steps,
    parse,
)

#: Held-out series that take part (at least four of each regime), and pseudo-transitions of them.
SERIES, SPLICES = 60, 40
#: With more regimes than MANY fewer series take part, as each costs the cube of their number, but
#: at least FEW.
MANY, FEW = 10, 12
#: Another model must lower the error by this share of it, and by so many standard errors.
MARGIN, CERTAINTY = 0.05, 2.0
#: Groups from which a standard error can be told, at least.
FEWEST_GROUPS = 4
#: The same for levels beside mechanisms: pure series do not show what they get wrong in a mixture.
LEVEL_MARGIN = 0.2
#: Models that do not predict are only taken if their error is below this share of the error by
#: chance: pure series and their splices do not show what levels get wrong in a mixture, whose mean
#: need not be the mixture of the means. Mechanisms above it are no first choice.
LEVEL_ERROR = 0.5

#: Gives the features of an observation model.
FeatureSource = Callable[[str], Features]


@dataclass(frozen=True)
class Selection:
    """The observation models to use, and the errors of all combinations that were tried."""

    selected: tuple[str, ...]
    tried: tuple[str, ...]  # single models
    errors: dict[str, float]  # half the sum of |alpha - truth|, mean over steps

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Selection:
        """From storage, also of earlier versions."""
        selected = stored["selected"] if "selected" in stored else stored["blocks"]
        errors = {canonical(name): error for name, error in stored["errors"].items()}
        return cls(tuple(map(canonical, selected)), tuple(map(canonical, stored["tried"])), errors)


def joined(names: Sequence[str]) -> str:
    """Name of a combination."""
    return " + ".join(names)


def halves(regime: np.ndarray, group: np.ndarray | None = None) -> np.ndarray:
    """Two halves (0 or 1) of the series of every regime; a group is in one of them if it can be.

    >>> halves(np.array([0, 0, 0, 0, 1, 1]), np.array(["a", "a", "b", "b", "b", "b"])).tolist()
    [0, 0, 1, 1, 0, 1]
    """
    out = cumcount(regime) % 2
    if group is None:
        return out
    number = np.unique(group, return_inverse=True)[1]
    for code in np.unique(regime):
        mine = regime == code
        several, own = np.unique(number[mine], return_inverse=True)
        if len(several) > 1:
            of_all = number[mine] % 2
            out[mine] = of_all if np.ptp(of_all) else own % 2
    return out


def select_models(
    features: FeatureSource,
    names: list[str],
    regime: np.ndarray,
    lags: int,
    group: np.ndarray | None = None,
    seed: int = 0,
    *,
    unseen: np.ndarray | None = None,
    apart: bool = False,
    doubtful: bool = False,
    hidden: bool = False,
) -> Selection:
    """Start from the best single observation model and add others while that clearly helps.

    With a single series of some regime nothing can be held out: the first model is taken. Of
    series that the networks have seen, not `unseen` (n,), some models have no features. With
    `apart`, regimes live in different regions of the state space; pure series then say nothing
    about mixtures, and the mechanisms of the channels are taken, which tell what they do not know,
    unless they do not tell even pure series. If mechanisms are only `doubtful` there, those of the
    channels are not left for others. If they leave errors that last, part of the state is `hidden`
    from them: they say less of mixtures than pure series show, and the moments of short windows
    join them, whatever pure series show.
    """
    if np.bincount(regime).min() < 2:
        first = names[0]
        return Selection((first,), tuple(dict.fromkeys([first, PLAIN, "static"])), {})
    some = np.flatnonzero(cumcount(regime) < max(4, SERIES // (1 + regime.max())))
    own = None if group is None else np.unique(group[some], return_inverse=True)[1]
    fresh = None if unseen is None else unseen[some]
    split = _LeaveHalfOut(regime[some], halves(regime[some], own), lags, seed, own, fresh)
    information: dict[str, GaussianInformation] = {}
    errors: dict[str, np.ndarray] = {}
    finished: set[str] = set()  # kinds that did not get better with twice the steps
    kind_of = {name: parse(name)[0] for name in names}

    def family(name: str) -> str:
        """Models of one family repeat each other's evidence."""
        return "mechanisms" if kind_of[name] in MECHANISMS else kind_of[name]

    for name, kind in kind_of.items():
        if kind in finished:
            continue
        information[name] = split.information(name, features(name).of_series(some))
        shorter = [np.nanmean(errors[other]) for other in errors if kind_of[other] == kind]
        errors[name] = split.errors(information[name])
        if shorter and not np.nanmean(errors[name]) < min(shorter):
            finished.add(kind)
    by_chance = 1 - 1 / (1 + regime.max())
    if CHANNELS in errors and np.nanmean(errors[CHANNELS]) > LEVEL_ERROR * by_chance:
        apart = doubtful = False  # mechanisms that do not tell even pure series

    def allowed(selected: list[str], other: str, error: np.ndarray) -> bool:
        """Mechanisms are only left for levels whose error is far from that by chance."""
        if doubtful and selected == [CHANNELS] and family(other) == "mechanisms":
            return False
        leaves = [family(n) for n in selected] == ["mechanisms"] and family(other) != "mechanisms"
        return not leaves or bool(np.nanmean(error) <= LEVEL_ERROR * by_chance)

    tried = list(errors)
    windows = [name for name in tried if kind_of[name] == "window_moments"]
    # the first is the shortest, which blurs transitions least: pure series do not show that
    if hidden and windows and np.nanmean(errors[windows[0]]) <= LEVEL_ERROR * by_chance:
        both = [CHANNELS, windows[0]]
        errors[joined(both)] = split.errors(information[both[0]] + information[both[1]])
        return _selection(both, tried, errors)
    selected = [CHANNELS] if apart else tried[:1]
    for name in [] if apart else tried[1:]:
        error, before = errors[name], errors[selected[0]]
        # between two models of levels the better one is taken, else the simpler one if in doubt
        both_levels = {kind_of[name], kind_of[selected[0]]} == {"static", "window_moments"}
        lower = bool(np.nanmean(error - before) < 0)
        better = lower if both_levels else split.clearly_better(error, before)
        if better and allowed(selected, name, error):
            selected = [name]
    while not apart:
        kinds = {family(name) for name in selected}
        best = selected
        for name in [name for name in tried if family(name) not in kinds]:
            both = [*selected, name]
            total = sum((information[part] for part in both[1:]), information[both[0]])
            error = errors[joined(both)] = split.errors(total)
            beside = "mechanisms" in kinds and family(name) != "mechanisms"
            margin = LEVEL_MARGIN if beside else MARGIN
            better = split.clearly_better(error, errors[joined(best)], margin)
            if better and allowed(selected, name, error):
                best = both
        if best is selected:
            break
        selected = best
    return _selection(selected, tried, errors)


def _selection(selected: list[str], tried: list[str], errors: dict[str, np.ndarray]) -> Selection:
    means = {name: float(np.nanmean(error)) for name, error in errors.items()}
    return Selection(tuple(selected), tuple(tried), means)


@dataclass(frozen=True, eq=False)
class _LeaveHalfOut:
    """Pure series in two halves: the noise is measured on one, alpha recovered in the other."""

    regime: np.ndarray  # (n,)
    half: np.ndarray  # (n,)
    lags: int
    seed: int
    group: np.ndarray | None = None  # (n,) number of the group of each series
    unseen: np.ndarray | None = None  # (n,) whether the networks have not seen the series

    def clearly_better(
        self, errors: np.ndarray, other: np.ndarray, margin: float = MARGIN
    ) -> bool:
        """Compare errors; those of one group are not independent.

        One group says nothing of others. Two or three do not tell a standard error: all must gain.
        Where the networks have seen some series, there must be a gain in the others, too.
        """
        gain = other - errors
        known: np.ndarray = np.isfinite(gain)
        if not known.any() or not gain[known].mean() > margin * other[known].mean():
            return False
        series = np.append(self._pure(), self._glides()[0])
        if self.unseen is not None and not gain[self.unseen[series] & known].sum() > 0:
            return False
        gain = gain[known]
        if self.group is not None:
            owner = np.unique(self.group[series[known]], return_inverse=True)[1]
            gain = np.bincount(owner, gain) / np.bincount(owner)
            if len(gain) < FEWEST_GROUPS:
                return len(gain) > 1 and bool((gain > 0).all())
        return bool(gain.mean() > CERTAINTY * gain.std() / np.sqrt(len(gain)))

    def information(self, name: str, features: Features) -> GaussianInformation:
        """Information of every series, with the model measured on the other half."""
        found: list[tuple[np.ndarray, GaussianInformation]] = []
        usable = known_steps(features.values, features.predictions).any(axis=1)
        for half in (0, 1):
            mine, others = self.half == half, (self.half != half) & usable
            if len(np.unique(self.regime[others])) < len(np.unique(self.regime)):
                others = usable  # those of the other half are too short, or all missing
            measured = features.of_series(others)
            model = ObservationModel.measure(
                name, measured.values, measured.predictions, self.regime[others]
            )
            if mine.any():
                own = features.of_series(mine)
                found.append((np.flatnonzero(mine), model.information(*own)))
        order = np.argsort(np.concatenate([rows for rows, _ in found]))
        whole = GaussianInformation.concatenate([information for _, information in found])
        return whole.select_series(order).shift_back(centre_lag(name))

    def errors(self, information: GaussianInformation) -> np.ndarray:
        """Mean error of each pure series and of each pseudo-transition; NaN without features."""
        steps, truth = information.h.shape[1], np.eye(len(information.h))[self.regime][:, None]
        some = self._pure()
        pure = self._error(information.select_series(some), truth[some])
        first, second = self._glides()
        glides = GaussianInformation.concatenate(
            [information.select_series(side) for side in (first, second)], in_time=True
        )
        both = np.concatenate(
            [np.repeat(truth[i], steps, axis=1) for i in (first, second)], axis=1
        )
        has = np.asarray((information.dims > 0).any(axis=0))
        known = np.append(has[some], has[first] & has[second])
        return np.where(known, np.append(pure, self._error(glides, both)), np.nan)

    @property
    def _share(self) -> float:
        """Of the series and splices that take part, as each costs the cube of K."""
        return min(1.0, (MANY / (1 + int(self.regime.max()))) ** 2)

    def _pure(self) -> np.ndarray:
        """Series that take part by themselves."""
        return self._spread(max(FEW, round(self._share * len(self.regime))))

    def _spread(self, count: int) -> np.ndarray:
        """Choose so many series (at most all), spread evenly over the regimes."""
        if count >= len(self.regime):
            return np.arange(len(self.regime))
        order = np.argsort(self.regime, kind="stable")
        return order[np.linspace(0, len(order) - 1, count).round().astype(int)]

    def _error(self, information: GaussianInformation, truth: np.ndarray) -> np.ndarray:
        alpha = state_space(information, np.ones(information.dims.T.shape)).alpha
        return 0.5 * np.abs(alpha - truth).sum(-1)[:, self.lags :].mean(axis=1)

    def _glides(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of series of two regimes, of one group where there are such."""
        rng = generator(self.seed, "pseudo-transitions")
        first, second = rng.integers(len(self.regime), size=(2, 4 * SPLICES))
        other = self.regime[first] != self.regime[second]
        if self.group is not None:
            alike = other & (self.group[first] == self.group[second])
            other = alike if alike.any() else other
        chosen = np.flatnonzero(other)[: max(FEW, round(self._share * SPLICES))]
        return first[chosen], second[chosen]
