"""Linear algebra of many small matrices at once, stored (m, m, ...) with the many last.

For matrices of 4 x 4, LAPACK spends its time on calls; loops over the few rows with arrays over
the many are ten times faster. With few matrices it is the other way round.
"""

from __future__ import annotations

import numpy as np

#: Up to so many matrices numpy's own routines are faster (measured for 4 x 4).
FEW = 40


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(m, k, ...) times (k, n, ...)."""
    if a[0, 0].size <= FEW and a.ndim == 3:
        return (a.transpose(2, 0, 1) @ b.transpose(2, 0, 1)).transpose(1, 2, 0)
    return np.einsum("ik...,kj...->ij...", a, b)


def apply(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(m, k, ...) times (k, ...)."""
    return np.einsum("ij...,j...->i...", a, x)


def diagonal(a: np.ndarray) -> np.ndarray:
    """The diagonals (m, ...) of (m, m, ...), as a view that can be written to."""
    return np.einsum("ii...->i...", a)


def inverse(a: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Inverses of symmetric positive definite matrices (m, m, ...), and what makes up their
    determinants: arrays whose logarithms add up to the log determinant.

    Halves are eliminated block by block without exchanges, which is stable for positive definite
    matrices.
    """
    m = len(a)
    if a[0, 0].size <= FEW and a.ndim == 3:
        stacked = a.transpose(2, 0, 1)
        roots = np.diagonal(np.linalg.cholesky(stacked), axis1=1, axis2=2)
        return np.linalg.inv(stacked).transpose(1, 2, 0), list(roots.T**2)
    if m == 1:
        return 1.0 / a, [a[0, 0]]
    out = np.empty(a.shape)
    if m == 2:  # written out: this is where the time goes
        determinant = a[0, 0] * a[1, 1]
        determinant -= a[1, 0] * a[1, 0]
        np.divide(a[0, 0], determinant, out=out[1, 1])
        np.divide(a[1, 1], determinant, out=out[0, 0])
        np.divide(a[1, 0], determinant, out=out[1, 0])
        np.negative(out[1, 0], out=out[1, 0])
        out[0, 1] = out[1, 0]
        return out, [determinant]
    half = m // 2
    corner = a[half:, :half]
    first, factors = inverse(a[:half, :half])
    ratio = product(corner, first)
    second, more = inverse(a[half:, half:] - product(ratio, corner.swapaxes(0, 1)))
    mixed = product(second, ratio)
    out[half:, half:] = second
    np.negative(mixed, out=out[half:, :half])
    out[:half, half:] = out[half:, :half].swapaxes(0, 1)
    np.add(first, product(ratio.swapaxes(0, 1), mixed), out=out[:half, :half])
    return out, factors + more


def log_determinant(factors: list[np.ndarray]) -> np.ndarray:
    """From the second answer of `inverse`."""
    total = np.log(factors[0])
    for factor in factors[1:]:
        total += np.log(factor)
    return np.asarray(total)
