"""Classifiers of rows and their past, the nearest mean, and a straight line in time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from mechtrace.data import Panel, Runs, find_runs, split_runs, training_runs
from mechtrace.stage1 import Listener

from .features import WindowFeatures, balanced_rows, chunks, curves_of, optional
from .protocol import Method, Traits, Truth


class Classifier(Method):
    """Probabilities of a scikit-learn classifier, taken for weights.

    It sees a row and the `lags` rows before it, of at most `features.MAX_ROWS` training rows;
    regimes count alike however long they were recorded.
    """

    def _learn(self, panel: Panel, listeners: Sequence[Listener], truth: Truth | None) -> None:
        lags, seed = self.settings.lags, self.settings.seed
        train = _training_part(self, panel, lags)
        self._features = WindowFeatures.of(panel, train, seed)
        rows, regime = balanced_rows(train, lags, seed)
        self._model = self._new(len(panel.regimes))
        self._model.fit(self._features.windows(panel, rows, lags), regime)
        self.regimes_ = tuple(panel.regimes)

    @abstractmethod
    def _new(self, regimes: int) -> Any:
        """The classifier, not yet fitted."""

    def _weights(self, panel: Panel) -> list[np.ndarray]:
        lags = self.settings.lags
        rows = find_runs(panel, by_regime=False).rows_with_past(lags)
        found = [np.zeros((0, len(self.regimes_)))]
        for part in chunks(panel, rows):
            found.append(self._model.predict_proba(self._features.windows(panel, part, lags)))
        return curves_of(panel, rows, np.concatenate(found))


class Logistic(Classifier):
    """Multinomial logistic regression."""

    traits = Traits(
        title="Logistic regression",
        about="Probabilities of a logistic regression on a row and its past.",
        package="sklearn",
    )

    def _new(self, regimes: int) -> Any:
        kind = optional("sklearn.linear_model").LogisticRegression
        return kind(class_weight="balanced", max_iter=2000, tol=1e-3)


class Boosting(Classifier):
    """Gradient-boosted trees."""

    traits = Traits(
        title="Gradient boosting",
        about="Probabilities of gradient-boosted trees on a row and its past.",
        package="sklearn",
    )

    def _new(self, regimes: int) -> Any:
        kind = optional("sklearn.ensemble").HistGradientBoostingClassifier
        # rows of one series resemble each other, so its own early stop on some rows means nothing
        return kind(class_weight="balanced", early_stopping=False, random_state=self.settings.seed)


class Discriminant(Classifier):
    """Linear discriminant analysis with a shrunk covariance."""

    traits = Traits(
        title="LDA",
        about="Probabilities of linear discriminant analysis on a row and its past.",
        package="sklearn",
    )

    def _new(self, regimes: int) -> Any:
        kind = optional("sklearn.discriminant_analysis").LinearDiscriminantAnalysis
        priors = np.full(regimes, 1 / regimes)
        return kind(solver="lsqr", shrinkage="auto", priors=priors)


class NearestMean(Method):
    """One-hot: the regime whose mean row is nearest, in standardised units."""

    traits = Traits(
        title="Nearest mean",
        about="Each row belongs wholly to the regime with the nearest mean.",
    )

    def _learn(self, panel: Panel, listeners: Sequence[Listener], truth: Truth | None) -> None:
        seed = self.settings.seed
        train = _training_part(self, panel, 0)
        self._features = WindowFeatures.of(panel, train, seed)
        rows, regime = balanced_rows(train, 0, seed)
        owned = np.eye(len(panel.regimes))[regime]
        sums = owned.T @ self._features.at(panel, rows)
        self._means = sums / owned.sum(axis=0)[:, None]
        self.regimes_ = tuple(panel.regimes)

    def _nearest(self, seen: np.ndarray) -> np.ndarray:
        """One-hot rows (n, K)."""
        # |x|^2 is the same for all means
        distance = (self._means**2).sum(axis=1) - 2 * seen @ self._means.T
        return np.eye(len(self._means))[distance.argmin(axis=1)]

    def _weights(self, panel: Panel) -> list[np.ndarray]:
        rows = find_runs(panel, by_regime=False).row_numbers()
        found = [np.zeros((0, len(self.regimes_)))]
        found += [self._nearest(self._features.at(panel, part)) for part in chunks(panel, rows)]
        return curves_of(panel, rows, np.concatenate(found))


class StraightLine(NearestMean):
    """A straight line in time between the regimes of both ends, as a reference for correlations.

    On short recordings of one change it is high, so a high correlation proves nothing there.
    """

    traits = Traits(
        title="Straight line",
        about="A line in time between the regimes of the first and the last tenth.",
    )

    def _weights(self, panel: Panel) -> list[np.ndarray]:
        rows = find_runs(panel, by_regime=False).row_numbers()
        found = [np.zeros((0, len(self.regimes_)))]
        for own in np.split(rows, np.searchsorted(rows, panel.offsets[1:-1])):
            if not len(own):
                continue
            tenth = max(1, len(own) // 10)
            ends = [self._features.at(panel, part) for part in (own[:tenth], own[-tenth:])]
            first, last = self._nearest(np.stack([end.mean(axis=0) for end in ends]))
            share = _elapsed(panel, own)[:, None]
            found.append((1 - share) * first + share * last)
        return curves_of(panel, rows, np.concatenate(found))


def _elapsed(panel: Panel, rows: np.ndarray) -> np.ndarray:
    """Time from the first of these rows to each, as a share of the time to the last."""
    time = rows if panel.time is None else panel.time[rows]
    since = (time - time[0]).astype(np.float64)
    return since / since[-1] if since[-1] > 0 else since


def _training_part(method: Method, panel: Panel, lags: int) -> Runs:
    runs = training_runs(panel, lags)
    return split_runs(runs, method.settings.holdout, lags, method.settings.seed)[0]
