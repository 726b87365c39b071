"""Bayesian regression with a part that all regimes share and a part of each: (W_0 + D_k)' phi.

Prior precisions, one for each kind of feature, maximise the evidence. It is made of sums over
rows, so leaving rows out costs a subtraction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: Fixed-point iterations of the evidence, and the relative change at which they end.
ITERATIONS, CONVERGED = 50, 0.005
#: Prior precisions by kind of feature (constant, linear and units of W_0, then those of D_k), in
#: units of the noise: where the search begins, and bounds. Regimes that live in different regions
#: leave it open whether they differ or one nonlinear mechanism bends between them. As they have
#: names of their own, the search begins with regimes that differ and little bending, and levels
#: and slopes are never held to be the same beforehand.
START = np.array([1e-3, 1e-3, 1e2, 1e-3, 1e-2, 1e1])
LEAST, MOST = 1e-6, np.array([1e7, 1e7, 1e7, 1e1, 1e2, 1e7])


@dataclass(frozen=True, eq=False)
class RegressionSums:
    """Sums over the rows of each regime, from which a regression follows; they add up."""

    square: np.ndarray  # (K, P, P) of the design
    product: np.ndarray  # (K, P, q) of the design with y
    power: np.ndarray  # (q,) squares of y
    count: int

    @classmethod
    def of(
        cls, design: np.ndarray, y: np.ndarray, regime: np.ndarray, regimes: int
    ) -> RegressionSums:
        """From y (N, q), a design (N, P) and regimes (N,)."""
        parts = [(design[regime == k], y[regime == k]) for k in range(regimes)]
        square = np.stack([one.T @ one for one, _ in parts])
        product = np.stack([one.T @ target for one, target in parts])
        return cls(square, product, (y**2).sum(axis=0), len(y))

    def __add__(self, other: RegressionSums) -> RegressionSums:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return RegressionSums(*(a + b for a, b in pairs))

    def __sub__(self, other: RegressionSums) -> RegressionSums:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return RegressionSums(*(a - b for a, b in pairs))


@dataclass(frozen=True, eq=False)
class Posterior:
    """Gaussian posterior of the stacked weights theta = (W_0, D_0, ..., D_{K-1})."""

    mean: np.ndarray  # (J, q)
    root: np.ndarray  # (J, J) lower: covariance of a column of theta is root root' noise
    noise: np.ndarray  # (q,) variance of each output
    own: np.ndarray  # (O,) features of each D_k
    regimes: int
    precision: np.ndarray  # (6,) of the priors of W_0 and of D_k, by kind of feature

    @classmethod
    def of(
        cls,
        sums: RegressionSums,
        kind: np.ndarray,
        own: bool,
        precision: np.ndarray | None = None,
    ) -> Posterior:
        """Regress by sums over a design whose columns are of kinds (P,) 0, 1 and 2.

        Prior precisions maximise the evidence, unless they are given.
        """
        kinds, P, q = sums.product.shape
        chosen = np.flatnonzero(kind < (3 if own else 2))
        size = P + kinds * len(chosen)
        gram, cross = np.zeros((size, size)), np.zeros((size, q))
        for k, (square, product) in enumerate(zip(sums.square, sums.product, strict=True)):
            own_rows = slice(P + k * len(chosen), P + (k + 1) * len(chosen))
            gram[:P, :P] += square
            gram[:P, own_rows] = square[:, chosen]
            gram[own_rows, :P] = square[chosen]
            gram[own_rows, own_rows] = square[np.ix_(chosen, chosen)]
            cross[:P] += product
            cross[own_rows] = product[chosen]
        group = np.concatenate([kind, np.tile(3 + kind[chosen], kinds)])
        present = np.unique(group)
        fixed = precision is not None
        precision = START.copy() if precision is None else precision
        for _ in range(1 if fixed else ITERATIONS):
            covariance = np.linalg.inv(gram + np.diag(precision[group]))
            mean = covariance @ cross
            left = sums.power - 2 * (mean * cross).sum(axis=0) + (mean * (gram @ mean)).sum(axis=0)
            noise = np.maximum(left / sums.count, 1e-12)
            if fixed:
                break
            before, sure = precision.copy(), np.diagonal(covariance)
            scaled = (mean**2 / noise).sum(axis=1)
            for one in present:
                mine = group == one
                determined = mine.sum() - precision[one] * sure[mine].sum()
                wanted = q * determined / (scaled[mine].sum() + 1e-12)
                precision[one] = np.clip(wanted, LEAST, MOST[one])
            if np.abs(np.log(precision / before)[present]).max() < CONVERGED:
                break
        root = np.linalg.cholesky(0.5 * (covariance + covariance.T))
        return cls(mean, root, noise, chosen, kinds, precision)

    @property
    def weights(self) -> np.ndarray:
        """Means of W_0 + D_k, (K, P, q)."""
        return self._by_regime(self.mean)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Draw W_0 + D_k, (K, P, q)."""
        white = rng.standard_normal(self.mean.shape) * np.sqrt(self.noise)
        return self._by_regime(self.mean + self.root @ white)

    def _by_regime(self, theta: np.ndarray) -> np.ndarray:
        P = len(theta) - self.regimes * len(self.own)
        out = np.repeat(theta[None, :P], self.regimes, axis=0)
        out[:, self.own] += theta[P:].reshape(self.regimes, len(self.own), -1)
        return out
