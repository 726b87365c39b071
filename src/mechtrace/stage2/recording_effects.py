"""How recordings of other machines, people or days differ: random effects of a recording.

In a recording, mechanism k of the channels predicts

    y_t = sum_k alpha_k (m_k(h_t) + b + d_k) + e_t,   b ~ N(0, common),   d_k ~ N(0, own_k),

with offsets that hold throughout: b in all regimes, d_k in regime k alone (one person runs harder
than another). Their covariances come from the prediction errors of groups by mechanisms that have
not seen them. The offsets of a new recording are estimated beside alpha, which is unknown: by
expectation-maximisation, with alpha on a lattice of the simplex that a recording leaves its
corners for, but does not like to: an offset that makes long stretches pure is more probable than
regimes that mix in a constant ratio all the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np

from .observation_models import Features, ObservationModel, known_steps

#: Iterations for covariances, and for the offsets of a recording.
ROUNDS, ITERATIONS = 30, 12
#: Blocks of a recording in which alpha is taken to be constant, at most.
BLOCKS = 200
#: States of alpha, at most; with more regimes than these allow, effects are not estimated.
STATES = 80
#: Probabilities to stay at a corner of the simplex, and elsewhere, and to go beyond neighbours.
AT_CORNER, BETWEEN, JUMP = 0.98, 0.8, 0.02
#: Factor on the noise of rows that nothing explains, and probability to get there.
UNKNOWN_NOISE, UNKNOWN = 9.0, 1e-4
#: Quantiles of a share that may stand for 0 and 1, and the least distance between them.
LOW, HIGH, RANGE = 0.05, 0.95, 0.2
#: Groups that count as if they had had no effect: covariances of few groups are uncertain.
SHRINK = 1.0
LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class RecordingEffects:
    """Covariances of the offsets of a recording, in the units of the predictions."""

    common: np.ndarray  # (p, p) of what all regimes share
    own: np.ndarray  # (K, p, p) of what belongs to one regime

    @classmethod
    def measure(
        cls, model: ObservationModel, features: Features, regime: np.ndarray, group: np.ndarray
    ) -> RecordingEffects:
        """From features of pure series (n,) by mechanisms that have not seen their group (n,)."""
        mean, rows = mean_errors(features, regime)
        seen = rows > 0
        mean, rows, regime = mean[seen], rows[seen], regime[seen]
        group = np.unique(group[seen], return_inverse=True)[1]
        kinds, p = len(model.means), mean.shape[1]
        noise = model.noise * model.autocorrelation_time
        # the mean of series of one group and regime, and its noise
        pairs, which = np.unique(np.stack([group, regime]), axis=1, return_inverse=True)
        weight = np.bincount(which, rows)
        means = np.stack([np.bincount(which, rows * column) for column in mean.T], axis=1)
        means /= weight[:, None]
        start = np.diag(np.maximum(means.var(axis=0), LEAST))
        common, own = 0.5 * start, np.repeat(0.5 * start[None], kinds, axis=0)
        for _ in range(ROUNDS):
            moments, count = np.zeros((1 + kinds, p, p)), np.zeros(1 + kinds)
            for one in range(int(group.max()) + 1):
                mine = np.flatnonzero(pairs[0] == one)
                there = pairs[1][mine]
                size = len(there) * p
                prior = np.kron(np.ones((len(there),) * 2), common)
                for i, k in enumerate(there):
                    block = slice(i * p, (i + 1) * p)
                    prior[block, block] += own[k]
                total = prior + np.kron(np.diag(1 / weight[mine]), noise)
                solved = np.linalg.solve(total + LEAST * np.eye(size), means[mine].reshape(-1))
                inverse = np.linalg.inv(total + LEAST * np.eye(size))
                pull = np.kron(np.ones((1, len(there))), common)
                b = pull @ solved
                moments[0] += np.outer(b, b) + common - pull @ inverse @ pull.T
                count[0] += 1
                for i, k in enumerate(there):
                    block = slice(i * p, (i + 1) * p)
                    d = own[k] @ solved[block]
                    left = own[k] - own[k] @ inverse[block, block] @ own[k]
                    moments[1 + k] += np.outer(d, d) + left
                    count[1 + k] += 1
            found = moments / np.maximum(count, 1)[:, None, None]
            common, own = found[0], found[1:]
        return cls(_few(common, count[0]), np.stack([_few(o, c) for o, c in zip(own, count[1:], strict=True)]))

    def known(
        self, model: ObservationModel, features: Features, regime: np.ndarray, group: np.ndarray
    ) -> np.ndarray:
        """Offsets (n, K, p) of pure series of known regime (n,); series of a group share them."""
        mean, rows = mean_errors(features, regime)
        noise = model.noise * model.autocorrelation_time
        kinds, p = self.own.shape[:2]
        out = np.zeros((len(regime), kinds, p))
        for one in np.unique(group):
            mine = np.flatnonzero((group == one) & (rows > 0))
            if not len(mine):
                continue
            same = regime[mine][:, None] == regime[mine]
            prior = np.kron(np.ones(same.shape), self.common)
            for i, j in zip(*np.nonzero(same), strict=True):
                prior[i * p : (i + 1) * p, j * p : (j + 1) * p] += self.own[regime[mine[i]]]
            total = prior + np.kron(np.diag(1 / rows[mine]), noise)
            fitted = prior @ np.linalg.solve(total, mean[mine].reshape(-1))
            fitted = fitted.reshape(-1, p)
            for i, s in enumerate(mine):
                out[s, :] = fitted[i]
        return out

    def estimate(
        self,
        model: ObservationModel,
        features: Features,
        known: np.ndarray | None = None,
    ) -> Offsets:
        """Offsets of each recording, of unknown alpha but where `known` (S, T, K) is finite."""
        values, predictions, doubt = features
        assert predictions is not None
        found = [
            self._estimate_one(
                _Blocks.of(model, values[s], predictions[s], None if doubt is None else doubt[s]),
                None if known is None else known[s],
            )
            for s in range(len(values))
        ]
        return Offsets(*(np.stack(part) for part in zip(*found, strict=True)))

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays for storage."""
        return {f"effects/{name}": value for name, value in vars(self).items()}

    @classmethod
    def from_arrays(cls, stored: dict[str, np.ndarray]) -> RecordingEffects | None:
        """From stored arrays; None if there are none."""
        if "effects/common" not in stored:
            return None
        return cls(stored["effects/common"], stored["effects/own"])

    def _estimate_one(
        self, blocks: _Blocks, known: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        kinds, p = self.own.shape[:2]
        prior = np.kron(np.ones((kinds, kinds)), self.common)
        for k in range(kinds):
            prior[k * p : (k + 1) * p, k * p : (k + 1) * p] += self.own[k]
        prior += LEAST * np.eye(kinds * p)
        precision = np.linalg.inv(prior)
        best: tuple[float, np.ndarray, np.ndarray] | None = None
        offset = np.zeros((kinds, p))
        path = blocks.shares(offset)[0]
        for start in (None, _stretched(path @ lattice(kinds), blocks.weight)):
            offset = np.zeros((kinds, p))
            if start is not None:
                offset, covariance = blocks.offsets(start, start[:, :, None] * start[:, None], precision)
            for _ in range(ITERATIONS):
                path, likelihood = blocks.shares(offset)
                states = lattice(kinds)
                before = offset
                offset, covariance = blocks.offsets(
                    path @ states, np.einsum("js,sk,sl->jkl", path, states, states), precision
                )
                if np.abs(offset - before).max() < 1e-3:
                    break
            flat = offset.reshape(-1)
            score = blocks.shares(offset)[1] - 0.5 * flat @ precision @ flat
            if best is None or score > best[0]:
                best = score, offset, covariance
        assert best is not None
        return best[1], best[2]


@dataclass(frozen=True, eq=False)
class Offsets:
    """Offsets of S recordings, and how well they are known."""

    mean: np.ndarray  # (S, K, p)
    covariance: np.ndarray  # (S, K p, K p)

    def added_to(self, features: Features) -> Features:
        """Features whose predictions hold for these recordings."""
        assert features.predictions is not None
        return features._replace(predictions=features.predictions + self.mean[:, None])


def mean_errors(features: Features, regime: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean prediction errors (n, p) of pure series and the rows (n,) behind them."""
    values, predictions, _ = features
    assert predictions is not None
    own = np.take_along_axis(predictions, regime[:, None, None, None], axis=2)[:, :, 0]
    known = known_steps(values, predictions)
    error = np.where(known[..., None], values - own, 0.0)
    rows = known.sum(axis=1)
    return error.sum(axis=1) / np.maximum(rows, 1)[:, None], rows.astype(float)


def _few(covariance: np.ndarray, groups: float) -> np.ndarray:
    """Shrink the covariance of few groups towards its diagonal."""
    share = groups / (groups + len(covariance))
    return share * covariance + (1 - share) * np.diag(np.diag(covariance))


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Sums over blocks of rows of one recording, from which likelihoods of alpha follow."""

    A: np.ndarray  # (J, p, p) precision of the rows
    y: np.ndarray  # (J, p) precision times values
    M: np.ndarray  # (J, p, K) precision times predictions
    G: np.ndarray  # (J, K, K)
    h: np.ndarray  # (J, K)
    square: np.ndarray  # (J,)
    weight: np.ndarray  # (J,) rows

    @classmethod
    def of(
        cls,
        model: ObservationModel,
        values: np.ndarray,
        predictions: np.ndarray,
        doubt: np.ndarray | None,
    ) -> _Blocks:
        """From values (T, p), predictions (T, K, p) and doubt (T, p) of one recording."""
        known = known_steps(values, predictions)
        sure = np.broadcast_to(np.asarray(model.certainty(doubt)), values.shape)
        root = np.linalg.cholesky(np.linalg.inv(model.noise) / model.autocorrelation_time)
        u = np.where(known[:, None], values, 0.0) * sure @ root
        m = np.where(known[:, None, None], predictions, 0.0) * sure[:, None] @ root
        scaled = np.where(known[:, None, None], sure[:, :, None] * root, 0.0)  # (T, p, w)
        length = -(-len(values) // BLOCKS)
        first = np.arange(0, len(values), length)

        def total(part: np.ndarray) -> np.ndarray:
            return np.asarray(np.add.reduceat(part, first, axis=0))

        return cls(
            total(np.einsum("tpw,tqw->tpq", scaled, scaled)),
            total(np.einsum("tpw,tw->tp", scaled, u)),
            total(np.einsum("tpw,tkw->tpk", scaled, m)),
            total(np.einsum("tkw,tlw->tkl", m, m)),
            total(np.einsum("tkw,tw->tk", m, u)),
            total((u**2).sum(axis=1)),
            total(known.astype(float)),
        )

    def shares(self, offset: np.ndarray) -> tuple[np.ndarray, float]:
        """Posterior (J, states) of alpha on the lattice, given offsets (K, p), and log likelihood.

        Rows that nothing explains count for nothing.
        """
        states = lattice(len(offset))
        f = states @ offset  # (N, p)
        quadratic = self.square[:, None] - 2 * self.h @ states.T
        quadratic = quadratic + np.einsum("sk,jkl,sl->js", states, self.G, states, optimize=True)
        quadratic -= 2 * (self.y @ f.T)
        quadratic += 2 * np.einsum("sp,jpk,sk->js", f, self.M, states, optimize=True)
        quadratic += np.einsum("sp,jpq,sq->js", f, self.A, f, optimize=True)
        least = quadratic.min(axis=1)
        unknown = least / UNKNOWN_NOISE + self.weight * self.y.shape[1] * np.log(UNKNOWN_NOISE)
        emission = -0.5 * np.concatenate([quadratic, unknown[:, None]], axis=1)
        posterior, likelihood = _forward_backward(emission, _transitions(len(offset)))
        return posterior[:, :-1], likelihood

    def offsets(
        self, mean: np.ndarray, square: np.ndarray, precision: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean (K, p) and covariance (K p, K p) of offsets, given moments of alpha."""
        kinds, p = mean.shape[1], self.y.shape[1]
        total = np.einsum("jkl,jpq->kplq", square, self.A).reshape(kinds * p, -1)
        pull = np.einsum("jk,jp->kp", mean, self.y) - np.einsum("jkl,jpl->kp", square, self.M)
        covariance = np.linalg.inv(total + precision)
        return (covariance @ pull.reshape(-1)).reshape(kinds, p), covariance


def _forward_backward(
    emission: np.ndarray, transitions: np.ndarray
) -> tuple[np.ndarray, float]:
    """Posterior (J, N) of hidden states and the log likelihood, from log emissions (J, N)."""
    top = emission.max(axis=1)
    likely = np.exp(emission - top[:, None])
    forward, scale = np.empty_like(likely), np.empty(len(likely))
    state = np.full(likely.shape[1], 1 / likely.shape[1])
    for j, one in enumerate(likely):
        state = (state @ transitions if j else state) * one
        scale[j] = state.sum()
        state = state / scale[j]
        forward[j] = state
    back = np.ones(likely.shape[1])
    for j in range(len(likely) - 1, 0, -1):
        back = transitions @ (likely[j] * back) / scale[j]
        forward[j - 1] *= back
    return forward, float((np.log(scale) + top).sum())


@cache
def lattice(kinds: int) -> np.ndarray:
    """Points (N, K) of a lattice on the simplex, its corners first."""
    levels = next((n for n in range(10, 0, -1) if _points(kinds, n) <= STATES), 1)
    bars = np.array(list(combinations(range(levels + kinds - 1), kinds - 1)), int)
    bars = bars.reshape(-1, kinds - 1)
    edges = np.concatenate(
        [np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), levels + kinds - 1)], axis=1
    )
    points = (np.diff(edges, axis=1) - 1) / levels
    return points[np.argsort(-points.max(axis=1), kind="stable")]


def _points(kinds: int, levels: int) -> float:
    from scipy.special import comb

    return float(comb(levels + kinds - 1, kinds - 1))


@cache
def _transitions(kinds: int) -> np.ndarray:
    """Probabilities of the next state of the lattice; the last one is the unknown."""
    points = lattice(kinds)
    apart = np.abs(points[:, None] - points).sum(axis=2)
    near = (apart > LEAST) & (apart < apart[apart > LEAST].min() + LEAST)
    stay = np.where(points.max(axis=1) > 1 - LEAST, AT_CORNER, BETWEEN)
    count = len(points)
    out = (1 - stay)[:, None] * ((1 - JUMP) * near / near.sum(axis=1, keepdims=True) + JUMP / count)
    out[np.diag_indices(count)] += stay
    whole = np.empty((count + 1, count + 1))
    whole[:-1, :-1], whole[:-1, -1] = out * (1 - UNKNOWN), UNKNOWN
    whole[-1, :-1], whole[-1, -1] = (1 - BETWEEN) / count, BETWEEN
    return whole


def _stretched(shares: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Shares (J, K) rescaled so that those that vary reach 0 and 1."""
    seen = weight > 0
    low, high = np.quantile(shares[seen], [LOW, HIGH], axis=0) if seen.any() else (0.0, 1.0)
    wide = high - low > RANGE
    scaled = np.where(wide, np.clip((shares - low) / np.where(wide, high - low, 1.0), 0, 1), 0.0)
    if not wide.any():
        return np.eye(shares.shape[1])[shares.mean(axis=0).argmax()] * np.ones_like(shares)
    total = scaled.sum(axis=1, keepdims=True)
    return np.where(total > LEAST, scaled / np.maximum(total, LEAST), 1 / shares.shape[1])
