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
from functools import cache
from itertools import combinations

import numpy as np

from .observation_models import Features, ObservationModel, known_steps

#: Iterations for covariances, and for the offsets of a recording.
ROUNDS, ITERATIONS, CONVERGED = 30, 20, 0.01
#: Blocks of a recording in which alpha is taken to be constant, at most.
BLOCKS = 200
#: States of alpha, at most; with more regimes than these allow, effects are not estimated.
STATES = 80
#: Probabilities to stay at a corner of the simplex, and elsewhere, and to go beyond neighbours.
AT_CORNER, BETWEEN, JUMP = 0.98, 0.5, 0.02
#: Factor on the noise of rows that nothing explains, and probability to get there.
UNKNOWN_NOISE, UNKNOWN = 9.0, 1e-4
#: Quantiles of a share that may stand for 0 and 1, and the least distance between them.
LOW, HIGH, RANGE = 0.05, 0.95, 0.2
#: Rows over which errors are averaged to see how they last.
STRETCH = 32
#: Draws of the offsets of a recording, and recordings worked on at once.
DRAWS, AT_ONCE = 8, 16
LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class RecordingEffects:
    """Covariances of the offsets of a recording, in the units of the predictions."""

    common: np.ndarray  # (p, p) of what all regimes share
    own: np.ndarray  # (K, p, p) of what belongs to one regime
    noise: np.ndarray  # (p, p) of rows, as far as it does not average out over `STRETCH` rows

    @classmethod
    def measure(
        cls, model: ObservationModel, features: Features, regime: np.ndarray, group: np.ndarray
    ) -> RecordingEffects:
        """From features of pure series (n,) by mechanisms that have not seen their group (n,)."""
        mean, rows = mean_errors(features, regime)
        noise = _lasting(model, features, regime)
        seen = rows > 0
        mean, rows, regime = mean[seen], rows[seen], regime[seen]
        group = np.unique(group[seen], return_inverse=True)[1]
        kinds, p = len(model.means), mean.shape[1]
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
        few = [_few(one, groups) for one, groups in zip(found, count, strict=True)]
        return cls(few[0], np.stack(few[1:]), noise)

    def known(
        self, model: ObservationModel, features: Features, regime: np.ndarray, group: np.ndarray
    ) -> np.ndarray:
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

    def estimate(self, model: ObservationModel, features: Features) -> Offsets:
        """Offsets of each recording, whose alpha is not known."""
        found = [
            self._estimate(_Blocks.of(model, self.noise, features.of_series(some)))
            for some in np.array_split(
                np.arange(len(features.values)), -(-len(features.values) // AT_ONCE)
            )
        ]
        return Offsets(*(np.concatenate(part) for part in zip(*found, strict=True)))

    def _estimate(self, blocks: _Blocks) -> tuple[np.ndarray, np.ndarray]:
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
        rng = np.random.default_rng(0)
        draws = []
        for place in (np.arange(DRAWS) + 0.5) / DRAWS:
            mode = np.where(place < 1 / (1 + second), best, 1 - best)
            random = roots[each, mode] @ rng.standard_normal(kinds * p)
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


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Sums over J blocks of rows of S recordings, from which likelihoods of alpha follow."""

    A: np.ndarray  # (S, J, p, p) precision of the rows
    y: np.ndarray  # (S, J, p) precision times values
    M: np.ndarray  # (S, J, p, K) precision times predictions
    G: np.ndarray  # (S, J, K, K)
    h: np.ndarray  # (S, J, K)
    square: np.ndarray  # (S, J)
    weight: np.ndarray  # (S, J) rows

    @classmethod
    def of(cls, model: ObservationModel, noise: np.ndarray, features: Features) -> _Blocks:
        """From features of recordings; `noise` (p, p) as it adds up over many rows."""
        values, predictions, doubt = features
        assert predictions is not None
        known = known_steps(values, predictions)
        sure = np.broadcast_to(np.asarray(model.certainty(doubt)), values.shape)
        root = np.linalg.cholesky(np.linalg.inv(noise))
        u = np.where(known[..., None], values, 0.0) * sure @ root
        m = np.where(known[..., None, None], predictions, 0.0) * sure[:, :, None] @ root
        scaled = np.where(known[..., None, None], sure[..., None] * root, 0.0)  # (S, T, p, w)
        steps = values.shape[1]
        first = np.arange(0, steps, -(-steps // BLOCKS))

        def total(part: np.ndarray) -> np.ndarray:
            return np.asarray(np.add.reduceat(part, first, axis=1))

        return cls(
            total(scaled @ scaled.mT),
            total(np.einsum("ntpw,ntw->ntp", scaled, u)),
            total(scaled @ m.mT),
            total(m @ m.mT),
            total(np.einsum("ntkw,ntw->ntk", m, u)),
            total((u**2).sum(axis=2)),
            total(known.astype(float)),
        )

    def shares(self, offset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Posterior (S, J, N) of alpha on the lattice and log likelihood, given b + d_k (S, K, p).

        Rows that nothing explains count for nothing.
        """
        states = lattice(offset.shape[1])
        f = states @ offset  # (S, N, p)
        quadratic = self.square[..., None] - 2 * self.h @ states.T
        outer = (states[:, :, None] * states[:, None]).reshape(len(states), -1)
        quadratic += self.G.reshape(*self.h.shape[:2], -1) @ outer.T
        quadratic -= 2 * self.y @ f.mT
        quadratic += 2 * np.einsum("nsp,njpk,sk->njs", f, self.M, states, optimize=True)
        power = (f[..., :, None] * f[..., None, :]).reshape(*f.shape[:2], -1)
        quadratic += self.A.reshape(*self.h.shape[:2], -1) @ power.mT
        least, rows = quadratic.min(axis=2), self.weight * self.y.shape[2]
        unknown = least / UNKNOWN_NOISE + rows * np.log(UNKNOWN_NOISE)
        emission = -0.5 * np.concatenate([quadratic, unknown[..., None]], axis=2)
        posterior, likelihood = _forward_backward(emission, _transitions(offset.shape[1]))
        return posterior[..., :-1], likelihood

    def offsets(self, mean: np.ndarray, square: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """Posterior mean (S, K, p) of b + d_k, given moments of alpha (S, J, K), (S, J, K, K)."""
        series, _, kinds = mean.shape
        pull = mean.mT @ self.y - np.einsum("njkl,njpl->nkp", square, self.M, optimize=True)
        found = np.linalg.solve(self._information(square, self.A) + precision,
                                pull.reshape(series, -1, 1))  # fmt: skip
        return found.reshape(series, kinds, -1)

    def root(self, path: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """Root (S, K p, K p) of the covariance of b + d_k, given a posterior of alpha (S, J, N).

        Between the corners alpha can follow an offset: rows there say nothing of directions in
        which predictions of the regimes differ.
        """
        states = lattice(self.h.shape[2])
        square = np.einsum("njs,sk,sl->njkl", path, states, states, optimize=True)
        inner = 1 - path[..., states.max(axis=1) > 1 - LEAST].sum(axis=2)
        A = self.A + LEAST * np.eye(self.A.shape[2])
        D = np.linalg.solve(A, self.M)
        D = D[..., 1:] - D[..., :1]
        lost = A @ D @ np.linalg.pinv(D.mT @ A @ D, hermitian=True) @ (A @ D).mT
        total = self._information(square, A - inner[..., None, None] * lost) + precision
        values, axes = np.linalg.eigh(0.5 * (total + total.mT))
        return np.asarray(axes / np.sqrt(np.maximum(values, LEAST))[:, None])

    def _information(self, square: np.ndarray, A: np.ndarray) -> np.ndarray:
        """Sum over the blocks (S, K p, K p) of alpha alpha' (x) A."""
        series, blocks, kinds, p = *self.h.shape, A.shape[2]
        flat = square.reshape(series, blocks, -1).mT @ A.reshape(series, blocks, -1)
        parts = flat.reshape(series, kinds, kinds, p, p).transpose(0, 1, 3, 2, 4)
        return parts.reshape(series, kinds * p, kinds * p)


def _forward_backward(
    emission: np.ndarray, transitions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior (S, J, N) of hidden states and log likelihoods (S,), from log emissions."""
    top = emission.max(axis=2)
    likely = np.exp(emission - top[..., None])
    forward, scale = np.empty_like(likely), np.empty(top.shape)
    state = np.full((len(likely), likely.shape[2]), 1 / likely.shape[2])
    for j in range(likely.shape[1]):
        state = (state @ transitions if j else state) * likely[:, j]
        scale[:, j] = state.sum(axis=1)
        state = state / scale[:, j, None]
        forward[:, j] = state
    back = np.ones_like(state)
    for j in range(likely.shape[1] - 1, 0, -1):
        back = (likely[:, j] * back) @ transitions.T / scale[:, j, None]
        forward[:, j - 1] *= back
    return forward, (np.log(scale) + top).sum(axis=1)


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
