"""Mechanisms learned on the channels themselves: a small ensemble of Bayesian regressions.

Latents of regimes that live in different regions of the state space need not fit together: no
training row lies between the regions. Channels always do. Member m of the ensemble predicts

    x_t = (W_0 + D_k)' phi_m(x_{t-1}, ..., x_{t-L}) + noise        (regime k)

with phi a constant, the history and tanh units of it, from which their linear part is removed.
The prior precisions of W_0 (shared by all regimes) and D_k (near zero, so that regimes differ only
where the data ask for it) maximise the evidence, one for each kind of feature. Members differ in
lags, in their units (random, or learned with directions of each regime, the mechanism form
tanh(W^(k) x)) and in whether D_k reads random units. Their spread and their posteriors tell how
far predictions are to be trusted away from the states of a regime.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .._runtime.stochastic import generator
from .channel_member import CONSTANT, ChannelRows, Member, apply, chunks, stored
from .imputation import Imputation
from .sensor_noise import sensor_noise

#: Lags of the members with random units; each is there with and without such units in D_k.
MEMBER_LAGS = (1, 2, 4)
#: Lags of the members with learned units, and how many units.
LEARNED_LAGS, LEARNED_UNITS = (1, 2), 64
#: Channels beyond this number are compressed to so many principal components.
MOST_CHANNELS = 16
#: Random units, and weights of one output, at most.
FEATURES, MOST_WEIGHTS = 200, 1200
#: Rows that are learned from, over all regimes.
MOST_ROWS = 60_000
#: Rows on which their noise is measured.
NOISE_ROWS = 10_000


@dataclass(frozen=True, eq=False)
class ChannelExperts:
    """The ensemble, and how channels are standardised, compressed and whitened.

    Histories are coordinates x (q,); predictions and their errors are of u = x `axes`, whose noise
    has about unit covariance.
    """

    centre: np.ndarray  # (c,)
    projection: np.ndarray  # (c, q)
    axes: np.ndarray  # (q, q)
    members: tuple[Member, ...]
    filled: tuple[Imputation, ...] = ()  # how each regime fills in missing channels

    @classmethod
    def cross_fit(
        cls, rows: ChannelRows, centre: np.ndarray, scale: np.ndarray, seed: int
    ) -> list[ChannelExperts]:
        """Learn from labelled rows of channels with a known centre and scale (c,).

        First from all rows, then without each fold: with the same units and prior precisions.
        Empty if there are too many regimes, or too few rows, for it.
        """
        kinds = int(rows.regime.max()) + 1
        white = (rows.values - centre) / scale
        projection = np.diag(1 / scale)[:, white.std(axis=0) > CONSTANT]
        if projection.shape[1] > MOST_CHANNELS:
            covariance = white.T @ white / len(white)
            values, vectors = np.linalg.eigh(covariance)
            best = np.argsort(-values)[:MOST_CHANNELS]
            best = best[values[best] > CONSTANT]
            projection = vectors[:, best] / np.sqrt(values[best]) / scale[:, None]
        q = projection.shape[1]
        rows = rows._replace(values=(rows.values - centre) @ projection)
        rng, members = generator(seed, "channel experts"), []
        noise = sensor_noise(rows.values, rows.position, rows.regime, rng)
        for lags in MEMBER_LAGS:
            ready = int(np.bincount(rows.regime[rows.position >= lags], minlength=kinds).min())
            fixed = (1 + lags * q) * (1 + kinds)
            for own in (False, True):
                units = min(FEATURES, (MOST_WEIGHTS - fixed) // (1 + kinds * own), ready)
                if units > 0:
                    members.append(Member.cross_fit(rows, lags, units, rng, noise, own=own))
            units = min(LEARNED_UNITS, MOST_WEIGHTS - fixed, ready)
            if lags in LEARNED_LAGS and units > 0:
                members.append(Member.cross_fit(rows, lags, units, rng, noise, learned=True))
        if not members:
            return []
        found = [
            cls(centre, projection, np.eye(q), of_fold) for of_fold in zip(*members, strict=True)
        ]
        axes = found[0]._whitening(rows)
        return [one._in_axes(axes) for one in found]

    def _whitening(self, rows: ChannelRows) -> np.ndarray:
        """Axes in which the errors on `rows` have unit covariance."""
        some = np.linspace(0, len(rows.values) - 1, min(len(rows.values), NOISE_ROWS)).astype(int)
        some = np.unique(some[rows.position[some] >= max(MEMBER_LAGS)])
        if not len(some):
            return self.axes
        past = (some[:, None] - np.arange(max(MEMBER_LAGS), -1, -1)).T  # (lags + 1, n)
        position = np.broadcast_to(rows.position[past], past.shape)
        predicted = self.predict(rows.values[past], position)[-1]
        error = rows.values[some] - predicted[np.arange(len(some)), rows.regime[some]]
        noise = error.T @ error / len(error)
        values, vectors = np.linalg.eigh(noise)
        return np.asarray(vectors / np.sqrt(values + 1e-6 * values.mean() + CONSTANT))

    def _in_axes(self, axes: np.ndarray) -> ChannelExperts:
        members = tuple(
            replace(m, weights=stored(m.weights @ axes), draws=stored(m.draws @ axes))
            for m in self.members
        )
        return replace(self, axes=axes, members=members)

    @property
    def regimes(self) -> int:
        """K."""
        return len(self.members[0].weights)

    def coordinates(self, values: np.ndarray) -> np.ndarray:
        """Standardised, compressed channels (..., q) of values (..., c)."""
        return (np.asarray(values, float) - self.centre) @ self.projection

    def predict(
        self, x: np.ndarray, position: np.ndarray, own: np.ndarray | None = None
    ) -> np.ndarray:
        """Mean predictions (T, S, K, q) of u at coordinates x (T, S, q).

        `position` (T, S) counts the steps since the last gap, -1 where nothing was observed. A
        member speaks where its history is known; NaN where none does. `own` (K, T, S, q) is added
        to the histories of each regime.
        """
        q = x.shape[-1]
        total = np.zeros((x.shape[0] * x.shape[1], self.regimes, q))
        for member in self.members:
            for ready, features in chunks(member, x, position) if own is None else ():
                total[ready] += apply(features, member.weights)
            for k, more in enumerate(() if own is None else own):
                for ready, features in chunks(member, x + more, position):
                    total[ready, k] += features[k % len(features)] @ member.weights[k]
        with np.errstate(invalid="ignore", divide="ignore"):
            total /= self._speaking(position).reshape(-1)[:, None, None]
        return total.reshape(*x.shape[:2], self.regimes, q)

    def without(self, missing: Sequence[int], filled: Sequence[Imputation]) -> ChannelExperts:
        """Mechanisms whose errors do not depend on the channels that are filled in.

        These directions of the errors are set to zero; the others stay orthonormal.
        """
        seen = self.projection[list(missing)] @ self.axes  # directions to leave out
        vectors, size, _ = np.linalg.svd(seen.T)
        rank = int((size > CONSTANT * size.max(initial=CONSTANT)).sum())
        turn = np.concatenate([vectors[:, rank:], np.zeros((len(vectors), rank))], axis=1)
        return replace(self._in_axes(turn), axes=self.axes @ turn, filled=tuple(filled))

    def histories(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How coordinates of a series (T, c) differ as each regime fills in channels.

        Mean (K, T, q), and possible errors of that (members, K, T, q).
        """
        mean, errors = [], []
        for own in self.filled:
            mean.append((own.fill(values) - values) @ self.projection)
            errors.append(own.draws(values, len(self.members)) @ self.projection[[*own.missing]])
        return np.nan_to_num(np.stack(mean)), np.stack(errors, axis=1)

    def errors(
        self,
        x: np.ndarray,
        position: np.ndarray,
        predicted: np.ndarray,
        weights: np.ndarray,
        own: np.ndarray | None = None,
    ) -> Iterator[np.ndarray]:
        """Yield possible errors (T, S, q) of the mixture of `predicted` (T, S, K, q).

        One for each posterior draw of each member, at mixture weights (T, S, K). `own` (members,
        K, T, S, q) is added to the histories of each regime.
        """
        mixed = np.einsum("tsk,tskq->tsq", weights, np.nan_to_num(predicted)).reshape(
            -1, x.shape[-1]
        )
        flat = weights.reshape(-1, self.regimes)
        for number, member in enumerate(self.members):
            out = np.zeros((len(member.draws), *mixed.shape))
            for ready, features in chunks(member, x, position) if own is None else ():
                for drawn, draw in zip(out, member.draws, strict=True):
                    moved = np.einsum("nk,nkq->nq", flat[ready], apply(features, draw))
                    drawn[ready] = moved - mixed[ready]
            for k, more in enumerate(() if own is None else own[number]):
                for ready, features in chunks(member, x + more, position):
                    share = flat[ready, k, None]
                    for drawn, draw in zip(out, member.draws, strict=True):
                        drawn[ready] += share * (features[k % len(features)] @ draw[k])
                        drawn[ready] -= mixed[ready] / self.regimes
            for drawn in out:
                yield drawn.reshape(x.shape)

    def doubt(
        self, x: np.ndarray, position: np.ndarray, regime: np.ndarray
    ) -> tuple[float, float]:
        """Possible squared errors of mechanisms over the noise, at own states and at others'.

        `x` (T, S, q) are series of pure regimes (S,). Medians over the rows of a regime, means
        over regimes and over pairs of them.
        """
        predicted = self.predict(x, position)
        known = position >= max(MEMBER_LAGS)
        if not known.any():
            return 0.0, 0.0
        doubts = np.full((self.regimes, self.regimes), np.nan)
        for k in range(self.regimes):
            weights = np.broadcast_to(np.eye(self.regimes)[k], (*x.shape[:2], self.regimes))
            errors = self.errors(x, position, predicted, weights)
            doubt = np.mean([(one**2).mean(axis=-1) for one in errors], axis=0)
            for at in range(self.regimes):
                rows = known & (regime == at)
                if rows.any():
                    doubts[k, at] = np.median(doubt[rows])
        mine = np.eye(self.regimes, dtype=bool)
        return tuple(float(np.nanmean(doubts[which])) for which in (mine, ~mine))  # type: ignore[return-value]

    def _speaking(self, position: np.ndarray) -> np.ndarray:
        """Count the members that know their history, as floats."""
        return sum((position >= m.lags).astype(float) for m in self.members)  # type: ignore[return-value]

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays for storage, weights in single precision."""
        out = {name: getattr(self, name) for name in ("centre", "projection", "axes")}
        for i, member in enumerate(self.members):
            for name, value in vars(member).items():
                out[f"{i}/{name}"] = value.astype(np.float32)
        return {f"experts/{name}": value for name, value in out.items()}

    @classmethod
    def from_arrays(cls, stored: dict[str, np.ndarray]) -> ChannelExperts | None:
        """From stored arrays; None if there are none."""
        mine = {
            name.removeprefix("experts/"): value.astype(float)
            for name, value in stored.items()
            if name.startswith("experts/")
        }
        if not mine:
            return None
        count = len({name.partition("/")[0] for name in mine if "/" in name})
        members = tuple(
            Member(**{name: mine[f"{i}/{name}"] for name in Member.__dataclass_fields__})
            for i in range(count)
        )
        return cls(mine["centre"], mine["projection"], mine["axes"], members)
