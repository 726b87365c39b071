"""Linear algebra of many small matrices at once, (m, m, ...) with the batch last.

For 4 x 4 matrices LAPACK spends its time on calls; loops over the few rows with arrays over the
batch are ten times faster. With few matrices it is the other way round.
"""

from __future__ import annotations

import numpy as np

#: Up to this many matrices numpy's own routines are faster (measured for 4 x 4).
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
    """Diagonals (m, ...) of (m, m, ...), as a view that can be written to."""
    return np.einsum("ii...->i...", a)


def lift(matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
    """One matrix (n, m) times all vectors (m, ...)."""
    return (matrix @ x.reshape(len(x), -1)).reshape(-1, *x.shape[1:])


def inverse(a: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Inverses of symmetric positive definite (m, m, ...), and factors of their determinants.

    Block elimination of halves without pivoting, which is stable for positive definite matrices.
    """
    m = len(a)
    if a[0, 0].size <= FEW:
        stacked = np.moveaxis(a, (0, 1), (-2, -1))
        roots = np.diagonal(np.linalg.cholesky(stacked), axis1=-2, axis2=-1)
        out = np.moveaxis(np.linalg.inv(stacked), (-2, -1), (0, 1))
        return out, list(np.moveaxis(roots**2, -1, 0))
    if m == 1:
        return 1.0 / a, [a[0, 0].copy()]  # callers may overwrite a
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
    """Log determinants (...) from the factors that `inverse` returns."""
    total = np.log(factors[0])
    for factor in factors[1:]:
        total += np.log(factor)
    return np.asarray(total)
