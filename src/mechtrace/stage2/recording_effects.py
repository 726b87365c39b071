"""How recordings of other machines, people or days differ: random effects of a recording.

In a recording, mechanism k of the channels predicts

    y_t = sum_k alpha_k (m_k(h_t) + b + d_k) + e_t,   b ~ N(0, common),   d_k ~ N(0, own_k),

with offsets that hold throughout: b in all regimes, d_k in regime k alone (a fault is more severe
here than there). Their covariances come from the prediction errors of groups by mechanisms that
have not seen them. The offsets of a new recording are estimated beside alpha, which is unknown: by
expectation-maximisation, with alpha on a lattice of the simplex whose corners it does not like to
leave. So an offset that makes long stretches pure is more probable than regimes that mix in a
constant ratio all the time. Only b is removed: d_k cannot be told from a share.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._runtime.stochastic import generator
from .corrections import BasisCorrection
from .observation_models import Features, ObservationModel, known_steps
from .share_lattice import LEAST, Blocks, lattice

#: Iterations for covariances, and for the offsets of a recording.
ROUNDS, ITERATIONS, CONVERGED = 30, 20, 0.01
#: Quantiles of a share that may stand for 0 and 1, and the least distance between them.
LOW, HIGH, RANGE = 0.05, 0.95, 0.2
#: Rows over which errors are averaged to see how they last.
STRETCH = 32
#: Draws of the offsets of a recording, and recordings worked on at once.
DRAWS, AT_ONCE = 8, 16


@dataclass(frozen=True, eq=False)
class RecordingEffects:
    """Covariances of the offsets of a recording, in the units of the predictions."""

    common: np.ndarray  # (p, p) of what all regimes share
    own: np.ndarray  # (K, p, p) of what belongs to one regime
    noise: np.ndarray  # (p, p) of rows, as far as it does not average out over `STRETCH` rows
    shares: np.ndarray  # (K, K) covariance that b adds to shares where it is not removed

    @classmethod
    def measure(
        cls, model: ObservationModel, features: Features, regime: np.ndarray, group: np.ndarray
    ) -> RecordingEffects:
        """From features of pure series (n,) by mechanisms that have not seen their group (n,)."""
        mean, rows = mean_errors(features, regime)
        noise = _lasting(model, features, regime)
        seen, every = rows > 0, regime
        mean, rows, regime = mean[seen], rows[seen], regime[seen]
        group = np.unique(group[seen], return_inverse=True)[1]
        # the mean of series of one group and regime, and its noise
        pairs, which = np.unique(np.stack([group, regime]), axis=1, return_inverse=True)
        weight = np.bincount(which, rows)
        sums = np.stack([np.bincount(which, rows * column) for column in mean.T], axis=1)
        means = sums / weight[:, None]
        found, count = _covariances(means, weight, pairs, noise)
        few = [_few(one, groups) for one, groups in zip(found, count, strict=True)]
        raw = BasisCorrection.measure(model.information(*features), every)
        return cls(few[0], np.stack(few[1:]), noise, raw.series_covariance)

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays for storage."""
        return {f"effects/{name}": value for name, value in vars(self).items()}

    @classmethod
    def from_arrays(cls, stored: dict[str, np.ndarray]) -> RecordingEffects | None:
        """From stored arrays; None if there are none."""
        if "effects/common" not in stored:
            return None
        return cls(*(stored[f"effects/{name}"] for name in cls.__dataclass_fields__))

    def turned(self, turn: np.ndarray) -> RecordingEffects:
        """Of predictions y' = y turn (p, p); directions that are no longer predicted have none."""
        common, own, noise = (turn.T @ part @ turn for part in (self.common, self.own, self.noise))
        noise[np.diag_indices_from(noise)] += np.diagonal(noise) == 0
        return RecordingEffects(common, own, noise, self.shares)

    def known(self, features: Features, regime: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Offsets b (n, p) of pure series of known regime (n,); those of a group share them."""
        mean, rows = mean_errors(features, regime)
        p = len(self.common)
        out = np.zeros((len(regime), p))
        for one in np.unique(group):
            mine = np.flatnonzero((group == one) & (rows > 0))
            if not len(mine):
                continue
            total = self._prior(regime[mine]) + np.kron(np.diag(1 / rows[mine]), self.noise)
            pull = np.kron(np.ones((1, len(mine))), self.common)
            out[group == one] = pull @ np.linalg.solve(total, mean[mine].reshape(-1))
        return out

    def _prior(self, regime: np.ndarray) -> np.ndarray:
        """Covariance (n p, n p) of b + d_k of n series of one recording with regimes (n,)."""
        p = len(self.common)
        out = np.kron(np.ones((len(regime),) * 2), self.common)
        for i, j in zip(*np.nonzero(regime[:, None] == regime), strict=True):
            out[i * p : (i + 1) * p, j * p : (j + 1) * p] += self.own[regime[i]]
        return out

    def estimate(self, model: ObservationModel, features: Features, seed: int = 0) -> Offsets:
        """Offsets of each recording, whose alpha is not known."""
        found = [
            self._estimate(Blocks.of(model, self.noise, features.of_series(some)), seed)
            for some in np.array_split(
                np.arange(len(features.values)), -(-len(features.values) // AT_ONCE)
            )
        ]
        return Offsets(*(np.concatenate(part) for part in zip(*found, strict=True)))

    def _estimate(self, blocks: Blocks, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Offsets b (S, p) of recordings, and draws (S, D, K, p) of what predictions lack."""
        kinds, p = self.own.shape[:2]
        precision = np.linalg.inv(self._prior(np.arange(kinds)) + LEAST * np.eye(kinds * p))
        states = lattice(kinds)
        series = len(blocks.h)
        usual = blocks.shares(np.zeros((series, kinds, p)))[0] @ states
        scores, offsets, paths = [], [], []
        for start in (usual, _stretched(usual, blocks.weight)):
            square = start[..., :, None] * start[..., None, :]
            offset = blocks.offsets(start, square, precision)
            for _ in range(ITERATIONS):
                path, likelihood = blocks.shares(offset)
                before, square = offset, np.einsum("njs,sk,sl->njkl", path, states, states)
                offset = blocks.offsets(path @ states, square, precision)
                if np.abs(offset - before).max() < CONVERGED:
                    break
            path, likelihood = blocks.shares(offset)
            flat = offset.reshape(series, -1)
            scores.append(likelihood - 0.5 * np.einsum("ni,ij,nj->n", flat, precision, flat))
            offsets.append(offset)
            paths.append(path)
        best = np.argmax(scores, axis=0)
        each = np.arange(series)
        second = np.exp(np.min(scores, axis=0) - np.max(scores, axis=0))
        pull = np.kron(np.ones((1, kinds)), self.common) @ precision
        found = np.stack(offsets, axis=1)  # (S, 2, K, p)
        b = found[each, best].reshape(series, -1) @ pull.T
        roots = np.stack([blocks.root(path, precision) for path in paths], axis=1)
        rng = generator(seed, "offsets of recordings")
        draws = []
        for place in (np.arange(DRAWS) + 0.5) / DRAWS:
            mode = np.where(place < 1 / (1 + second), best, 1 - best)
            random = roots[each, mode] @ rng.standard_normal((series, kinds * p, 1))
            draws.append(found[each, mode] + random.reshape(series, kinds, p) - b[:, None])
        return b, np.stack(draws, axis=1)


@dataclass(frozen=True, eq=False)
class Offsets:
    """Offsets of S recordings, and how well they are known."""

    mean: np.ndarray  # (S, p)
    errors: np.ndarray  # (S, D, K, p) draws of what the predictions of each regime still lack

    def added_to(self, features: Features) -> Features:
        """Features whose predictions hold for these recordings."""
        return shifted(features, self.mean)


def shifted(features: Features, offset: np.ndarray) -> Features:
    """Features whose predictions are shifted by offsets (S, p)."""
    assert features.predictions is not None
    return features._replace(predictions=features.predictions + offset[:, None, None])


def mean_errors(features: Features, regime: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean prediction errors (n, p) of pure series and the rows (n,) behind them."""
    values, predictions, _ = features
    assert predictions is not None
    own = np.take_along_axis(predictions, regime[:, None, None, None], axis=2)[:, :, 0]
    known = known_steps(values, predictions)
    error = np.where(known[..., None], values - own, 0.0)
    rows = known.sum(axis=1)
    return error.sum(axis=1) / np.maximum(rows, 1)[:, None], rows.astype(float)


def _covariances(
    means: np.ndarray, weight: np.ndarray, pairs: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Covariances (1 + K, p, p) of b and of each d_k, and groups (1 + K,) behind them.

    From mean errors (n, p) of `weight` (n,) rows, of which `pairs` (2, n) has group and regime: by
    expectation-maximisation.
    """
    group, regime = pairs
    kinds, p = int(regime.max()) + 1, means.shape[1]
    found = np.repeat(0.5 * np.diag(np.maximum(means.var(axis=0), LEAST))[None], 1 + kinds, axis=0)
    count = np.append(len(np.unique(group)), np.bincount(regime))
    for _ in range(ROUNDS):
        moments = np.zeros_like(found)
        for one in np.unique(group):
            mine = np.flatnonzero(group == one)
            size = len(mine) * p
            total = np.kron(np.ones((len(mine),) * 2), found[0])
            total += np.kron(np.diag(1 / weight[mine]), noise) + LEAST * np.eye(size)
            blocks = [slice(i * p, (i + 1) * p) for i in range(len(mine))]
            for block, k in zip(blocks, regime[mine], strict=True):
                total[block, block] += found[1 + k]
            inverse = np.linalg.inv(total)
            solved = inverse @ means[mine].reshape(-1)
            pulls = [(0, np.kron(np.ones((1, len(mine))), found[0]))]
            for block, k in zip(blocks, regime[mine], strict=True):
                pull = np.zeros((p, size))
                pull[:, block] = found[1 + k]
                pulls.append((1 + k, pull))
            for which, pull in pulls:
                mean = pull @ solved
                moments[which] += np.outer(mean, mean) + found[which] - pull @ inverse @ pull.T
        found = moments / np.maximum(count, 1)[:, None, None]
    return found, count


def _few(covariance: np.ndarray, groups: float) -> np.ndarray:
    """Covariance of one more group: that of few groups is shrunk to its diagonal and widened."""
    share = groups / (groups + len(covariance))
    own = np.diagonal(covariance)
    own = (groups * own + 2 * np.median(own)) / (groups + 2)
    wider = (groups + 1) / max(groups - 1, 1)
    return wider * (share * covariance + (1 - share) * np.diag(own))


def _lasting(model: ObservationModel, features: Features, regime: np.ndarray) -> np.ndarray:
    """Covariance (p, p) of errors times rows over which they are averaged; at least the noise.

    In some directions errors last longer than in others.
    """
    values, predictions, _ = features
    assert predictions is not None
    own = np.take_along_axis(predictions, regime[:, None, None, None], axis=2)[:, :, 0]
    known = known_steps(values, predictions)
    usual = model.noise * model.autocorrelation_time
    means = []
    for error, mine in zip(values - own, known, strict=True):
        rows = error[mine] - error[mine].mean(axis=0) if mine.any() else error[mine]
        count = len(rows) // STRETCH
        if count > 1:
            parts = rows[: count * STRETCH].reshape(count, STRETCH, -1).mean(axis=1)
            means.append(parts * np.sqrt(STRETCH * count / (count - 1)))
    if not means:
        return usual
    found = np.concatenate(means)
    root = np.linalg.cholesky(usual)
    white = np.linalg.solve(root, found.T)
    values_, axes = np.linalg.eigh(white @ white.T / len(found))
    share = len(found) / (len(found) + len(usual))
    longer = np.maximum(share * values_ + (1 - share), 1.0)
    return np.asarray(root @ (axes * longer) @ axes.T @ root.T)


def _stretched(shares: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Corners (S, J, K) nearest to shares that are rescaled so that those that vary reach 0, 1."""
    out = np.zeros_like(shares)
    for one, seen, rows in zip(out, shares, weight > 0, strict=True):
        if not rows.any():
            continue
        low, high = np.quantile(seen[rows], [LOW, HIGH], axis=0)
        wide = high - low > RANGE
        scaled = np.where(wide, (seen - low) / np.where(wide, high - low, 1.0), 0.0)
        nearest = scaled.argmax(axis=1) if wide.any() else seen.mean(axis=0).argmax()
        one[rows] = np.eye(shares.shape[2])[nearest][rows] if wide.any() else 0.0
        if not wide.any():
            one[rows, nearest] = 1.0
    return out
