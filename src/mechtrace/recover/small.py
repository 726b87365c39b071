"""Linear algebra of many small matrices at once, stored (m, m, N) with the many last.

For matrices of 4 x 4, LAPACK spends its time on calls; loops over the few rows with arrays over
the many are ten times faster. With few matrices it is the other way round.
"""

from __future__ import annotations

import numpy as np

#: Up to so many matrices numpy's own routines are faster (measured for 4 x 4).
FEW = 40


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(m, k, N) times (k, n, N)."""
    if a.shape[2] <= FEW:
        return (a.transpose(2, 0, 1) @ b.transpose(2, 0, 1)).transpose(1, 2, 0)
    out = a[:, :1] * b[:1]
    for j in range(1, a.shape[1]):
        out += a[:, j : j + 1] * b[j : j + 1]
    return out


def apply(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(m, k, N) times (k, N)."""
    return (a * x).sum(axis=1)


def inverse(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inverse and log determinant of symmetric positive definite matrices (m, m, N).

    Gauss-Jordan without exchanges, which is stable for positive definite matrices.
    """
    if a.shape[2] <= FEW:
        stacked = a.transpose(2, 0, 1)
        roots = np.diagonal(np.linalg.cholesky(stacked), axis1=1, axis2=2)
        return np.linalg.inv(stacked).transpose(1, 2, 0), 2 * np.log(roots).sum(axis=1)
    m = len(a)
    a = a.copy()
    log_det = np.zeros(a.shape[2:])
    for k in range(m):
        pivot = a[k, k].copy()
        log_det += np.log(pivot)
        row = a[k] / pivot
        column = a[:, k].copy()
        a -= column[:, None] * row
        a[k] = row
        a[:, k] = -column / pivot
        a[k, k] = 1.0 / pivot
    return a, log_det
