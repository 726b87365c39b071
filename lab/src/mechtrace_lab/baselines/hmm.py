"""Hidden Markov models: posteriors of the states, with Gaussian or autoregressive emissions.

With labels the emissions come from these, and held-out series choose the rest; without, EM finds
all. Forward-backward and EM are hmmlearn's; its Gaussian model is the regression of `Emissions`
without a past.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from mechtrace.data import Panel, Runs, find_runs, split_runs, training_runs
from mechtrace.errors import DataError
from mechtrace.stage1 import Listener

from .emissions import Emissions, moments
from .features import CHUNK_ROWS, WindowFeatures, balanced_rows, curves_of, optional
from .protocol import Method, Traits, Truth

#: Among these, spliced held-out series choose: expected stays, in rows, and powers to which the
#: emissions are raised. Neighbouring rows repeat each other, which the model itself (power 1)
#: takes for new evidence: it is far too sure, and only changing all the time would temper it.
STAYS = (2, 5, 10, 20, 50, 100, 200, 500, 1000)
POWERS = (1.0, 0.5, 0.25, 0.12, 0.06)
SPLICES = 150
#: EM looks at so many rows at most, starts so often and makes so many rounds.
EM_ROWS, EM_STARTS, EM_ROUNDS = 50_000, 4, 60
#: Rows that share a state when EM starts from a random guess, and its first expected stay.
EM_BLOCK = 20


class GaussianHMM(Method):
    """Hidden Markov model with Gaussian emissions."""

    traits = Traits(
        title="Gaussian HMM",
        about="State posteriors of a hidden Markov model with Gaussian emissions.",
        labels=False,
        package="hmmlearn",
    )

    @property
    def _past(self) -> int:
        return 0

    def _learn(self, panel: Panel, listeners: Sequence[Listener], truth: Truth | None) -> None:
        optional("hmmlearn.base")
        if panel.labelled:
            self._learn_from_labels(panel)
        else:
            self._learn_by_em(panel)

    def _learn_from_labels(self, panel: Panel) -> None:
        seed, past = self.settings.seed, self._past
        runs = training_runs(panel, past)
        train, held = split_runs(runs, self.settings.holdout, past, seed)
        self._features = WindowFeatures.of(panel, train, seed)
        rows, regime = balanced_rows(train, past, seed)
        seen = self._features.windows(panel, rows, past)
        owned = np.eye(len(panel.regimes))[regime]
        emissions = Emissions.fit(seen, owned, self._width(seen))
        changes = _label_changes(panel, held.series)
        if changes.sum() > np.trace(changes):
            # one more of each kind: a change that was not seen is not impossible
            matrices = [(changes + 1) / (changes + 1).sum(axis=1, keepdims=True)]
        else:
            matrices = [sticky(emissions.states, stay) for stay in STAYS]
        models = [_ready_model(emissions, matrix, p) for matrix in matrices for p in POWERS]
        spare = held + train.where(~np.isin(train.regime, held.regime))
        self._model = self._best_of(models, panel, spare)
        self.regimes_ = tuple(panel.regimes)

    def _best_of(self, models: Sequence[Any], panel: Panel, held: Runs) -> Any:
        """The model under which the labels of spliced held-out runs have the best log score."""
        rows, lengths, labels = _spliced(held, self._past, self.settings.seed)
        seen = self._features.windows(panel, rows, self._past)
        scores = []
        for model in models:
            own = model.predict_proba(seen, lengths)[np.arange(len(labels)), labels]
            scores.append(np.log(np.maximum(own, 1e-12)).mean())
        return models[int(np.argmax(scores))]

    def _learn_by_em(self, panel: Panel) -> None:
        runs = find_runs(panel, by_regime=False)
        runs = runs.where(runs.length > self._past)
        if runs.rows <= self._past * len(runs) + self.settings.states:
            raise DataError(
                f"there is no stretch of more than {self._past} rows without a gap",
                where=panel.source,
                fix="record for longer or fill the gaps",
            )
        rng = np.random.default_rng([self.settings.seed, 23])
        order = rng.permutation(len(runs))
        enough = int(np.searchsorted(np.cumsum(runs.length[order]), EM_ROWS)) + 1
        runs = runs.where(np.sort(order[:enough]))
        self._features = WindowFeatures.of(panel, runs, self.settings.seed)
        seen = self._features.windows(panel, runs.rows_with_past(self._past), self._past)
        self._model = _best_of_em(
            seen, runs.length - self._past, self.settings.states, self._width(seen), rng
        )
        self.regimes_ = tuple(f"S{k}" for k in range(self.settings.states))

    def _width(self, seen: np.ndarray) -> int:
        return seen.shape[1] // (self._past + 1)

    def _weights(self, panel: Panel) -> list[np.ndarray]:
        runs = find_runs(panel, by_regime=False)
        runs = runs.where(runs.length > self._past)
        found = [np.zeros((0, len(self.regimes_)))]
        for part in _parts(runs):
            seen = self._features.windows(panel, part.rows_with_past(self._past), self._past)
            found.append(self._model.predict_proba(seen, part.length - self._past))
        return curves_of(panel, runs.rows_with_past(self._past), np.concatenate(found))


class AutoregressiveHMM(GaussianHMM):
    """Hidden Markov model with linear autoregressive emissions."""

    traits = Traits(
        title="Autoregressive HMM",
        about="State posteriors of a hidden Markov model with linear autoregressive emissions.",
        labels=False,
        package="hmmlearn",
    )

    @property
    def _past(self) -> int:
        return self.settings.lags


def sticky(states: int, stay: float) -> np.ndarray:
    """Transition matrix with an expected stay of so many rows and uniform departures."""
    if states == 1:
        return np.ones((1, 1))
    leave = 1 / stay
    matrix = np.full((states, states), leave / (states - 1))
    np.fill_diagonal(matrix, 1 - leave)
    return matrix


@cache
def _model_class() -> Any:
    base: Any = optional("hmmlearn.base").BaseHMM

    class RegressionHMM(base):
        """hmmlearn's forward-backward and EM around `Emissions`."""

        emissions: Emissions
        power: float

        def _get_n_fit_scalars_per_param(self) -> None:
            """Not told: only a warning about short data is made of it."""

        def _compute_log_likelihood(self, X: np.ndarray) -> np.ndarray:
            return self.power * self.emissions.log_likelihood(X)

        def _initialize_sufficient_statistics(self) -> dict[str, Any]:
            stats: dict[str, Any] = super()._initialize_sufficient_statistics()
            size = self.emissions.whitening.shape[1]
            stats["moments"] = np.zeros((self.n_components, size, size))
            return stats

        def _accumulate_sufficient_statistics(
            self, stats: dict[str, Any], X: np.ndarray, *found: np.ndarray, **named: np.ndarray
        ) -> None:
            super()._accumulate_sufficient_statistics(stats, X, *found, **named)
            stats["moments"] += moments(X, found[1])

        def _do_mstep(self, stats: dict[str, Any]) -> None:
            super()._do_mstep(stats)
            width = self.emissions.covariance.shape[1]
            self.emissions = Emissions.from_moments(stats["moments"], width)

    return RegressionHMM


def _ready_model(emissions: Emissions, matrix: np.ndarray, power: float = 1.0) -> Any:
    states = emissions.states
    # a prior above 1 keeps every change possible during EM
    model = _model_class()(
        states, transmat_prior=1.1, startprob_prior=1.1, n_iter=EM_ROUNDS, init_params=""
    )
    model.emissions, model.power = emissions, power
    model.startprob_, model.transmat_ = np.full(states, 1 / states), matrix
    return model


def _best_of_em(
    seen: np.ndarray, lengths: np.ndarray, states: int, width: int, rng: np.random.Generator
) -> Any:
    """Run EM from several starts and return the model of the highest likelihood."""
    best, best_score = None, -np.inf
    for start in range(EM_STARTS):
        owner = _clusters(seen, states, rng) if start == 0 else _blocks(lengths, states, rng)
        emissions = Emissions.fit(seen, np.eye(states)[owner], width)
        model = _ready_model(emissions, sticky(states, EM_BLOCK)).fit(seen, lengths)
        score = model.score(seen, lengths)
        if score > best_score:
            best, best_score = model, score
    return best


def _clusters(seen: np.ndarray, states: int, rng: np.random.Generator) -> np.ndarray:
    kind = optional("sklearn.cluster").KMeans
    means = kind(states, n_init=3, random_state=int(rng.integers(1 << 31)))
    return np.asarray(means.fit_predict(seen))


def _blocks(lengths: np.ndarray, states: int, rng: np.random.Generator) -> np.ndarray:
    parts = [
        np.repeat(rng.integers(states, size=-(-n // EM_BLOCK)), EM_BLOCK)[:n] for n in lengths
    ]
    return np.concatenate(parts)


def _label_changes(panel: Panel, without: np.ndarray) -> np.ndarray:
    """Count transitions (K, K) between labels of neighbouring rows, leaving out some series."""
    codes = np.full(panel.rows, -1) if panel.codes is None else panel.codes.astype(np.int64)
    known = (codes >= 0) & panel.observed() & ~np.isin(panel.series_index(), without)
    follows = known[1:] & known[:-1] & ~panel.breaks()[1:]
    out = np.zeros((len(panel.regimes), len(panel.regimes)))
    np.add.at(out, (codes[:-1][follows], codes[1:][follows]), 1)
    return out


def _spliced(held: Runs, past: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row numbers, lengths and labels of series that are one regime up to a cut, then another."""
    rng = np.random.default_rng([seed, 29])
    codes = np.unique(held.regime)
    rows, labels, lengths = [], [], []
    for _ in range(SPLICES):
        pair = rng.choice(codes, 2, replace=False)
        one, other = (int(rng.choice(np.flatnonzero(held.regime == code))) for code in pair)
        steps = int(min(held.length[one], held.length[other])) - past
        cut = int(rng.integers(0, steps + 1))
        first, last = held.start[one] + past, held.start[other] + held.length[other]
        rows += [np.arange(first, first + cut), np.arange(last - steps + cut, last)]
        labels += [np.full(cut, pair[0]), np.full(steps - cut, pair[1])]
        lengths.append(steps)
    return np.concatenate(rows), np.array(lengths), np.concatenate(labels)


def _parts(runs: Runs) -> Iterator[Runs]:
    """The runs in groups whose rows fit into memory."""
    group = np.cumsum(runs.length) // CHUNK_ROWS
    return (runs.where(group == number) for number in np.unique(group))
