"""W^(k) in aligned coordinates, with standard errors clustered by stretch."""

from __future__ import annotations

import numpy as np

from ..stage1.networks import SLOPE
from .mechanism_form import MechanismForm
from .transitions import Transitions


def weights_of_form(
    form: MechanismForm, rows: Transitions, steps: int = 8
) -> tuple[np.ndarray, np.ndarray]:
    """Fit the form's matrices (K, L, d, d) without penalty, and their standard errors.

    The axes are fixed; each target is a least-squares problem of its own (Gauss-Newton).
    """
    d, kinds, later = rows.size, rows.regimes, len(form.later)
    past = rows.history @ form.rotation.T + form.origin  # (L, N, d)
    value = rows.value @ form.rotation.T + form.origin
    matrices = np.empty((kinds, later + 1, d, d))
    errors = np.empty_like(matrices)
    for target in range(d):
        theta = np.concatenate(
            [form.first[:, :, target].ravel(), form.later[:, :, target].ravel()]
        )
        for _ in range(steps):
            gradient, error = _linearised(theta, past, value[:, target], rows.regime, kinds)
            normal = gradient.T @ gradient
            normal[np.diag_indices_from(normal)] += 1e-6 * len(value)
            theta = theta + np.linalg.solve(normal, gradient.T @ error)
        gradient, error = _linearised(theta, past, value[:, target], rows.regime, kinds)
        spread = _sandwich(gradient, error, rows)
        for out, found in ((matrices, theta), (errors, spread)):
            out[:, 0, :, target] = found[: kinds * d].reshape(kinds, d)
            out[:, 1:, :, target] = found[kinds * d :].reshape(later, d)
    return matrices, errors


def weights_of_effects(rows: Transitions, effects: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Correct the experts' average effects (K, L, d, d) by a regression of their residuals.

    Each regime's residuals are regressed on its histories; the standard errors of that regression
    are returned as those of the effects.
    """
    kinds, lags, d, _ = effects.shape
    corrected, errors = effects.copy(), np.empty_like(effects)
    residual = rows.residual
    for k in range(kinds):
        mine = rows.regime == k
        past = np.concatenate(list(rows.history[:, mine]), axis=1)
        design = np.column_stack([past - past.mean(axis=0), np.ones(mine.sum())])
        found = np.linalg.lstsq(design, residual[mine], rcond=None)[0]
        error = residual[mine] - design @ found
        some = rows.where(mine)
        corrected[k] += found[:-1].reshape(lags, d, d)
        for target in range(d):
            spread = _sandwich(design, error[:, target], some)[:-1]
            errors[k, :, :, target] = spread.reshape(lags, d)
    return corrected, errors


def _linearised(
    theta: np.ndarray, past: np.ndarray, value: np.ndarray, regime: np.ndarray, kinds: int
) -> tuple[np.ndarray, np.ndarray]:
    """Gradient (N, parameters) and error (N,) of one target: W_k, then V_l."""
    lags, count, d = past.shape
    own = theta[: kinds * d].reshape(kinds, d)
    later = theta[kinds * d :].reshape(lags - 1, d)
    drives = [np.einsum("nd,nd->n", past[0], own[regime])]
    drives += [past[lag] @ later[lag - 1] for lag in range(1, lags)]
    total = sum(np.maximum(drive, SLOPE * drive) for drive in drives)
    outer = np.where(total > 0, 1.0, SLOPE)
    slopes = [outer * np.where(drive > 0, 1.0, SLOPE) for drive in drives]
    gradient = np.zeros((count, kinds + lags - 1, d))
    gradient[np.arange(count), regime] = slopes[0][:, None] * past[0]
    for lag in range(1, lags):
        gradient[:, kinds + lag - 1] = slopes[lag][:, None] * past[lag]
    return gradient.reshape(count, -1), value - np.maximum(total, SLOPE * total)


def _sandwich(gradient: np.ndarray, error: np.ndarray, rows: Transitions) -> np.ndarray:
    """Return standard errors of least squares, clustered by stretch."""
    scores = gradient * error[:, None]
    units = rows.unit.max() + 1
    sums = np.zeros((units, gradient.shape[1]))
    np.add.at(sums, rows.unit, scores)
    normal = gradient.T @ gradient
    normal[np.diag_indices_from(normal)] += 1e-9 * np.trace(normal) / len(normal)
    inverse = np.linalg.inv(normal)
    spread = np.einsum("pu,pu->p", inverse @ sums.T, inverse @ sums.T)
    return np.sqrt(spread * units / max(units - 1, 1))
