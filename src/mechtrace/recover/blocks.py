"""Blocks of evidence: different things a recording shows about alpha, each with its own noise.

- `conditional(h)`: where the latents go within h steps, against what each expert expects;
- `static`: where the latents are, against the mean latents of each regime (the paper's evidence);
- `moments(w)`: what the latents do over the last w steps: mean, log deviation, and log deviation
  of the steps (gait, vibration).

The noise of a block is measured on left-out series of pure regimes, around each series' own mean
error: what is constant in a series is an offset, not noise, and is dealt with in `offsets`. Errors
that are dependent over time count for less, by their autocorrelation time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.optimize import brentq
from scipy.stats import chi2

from ..errors import ConfigError
from .evidence import Evidence
from .support import MARGIN, WITHIN

#: The block that every model has.
PLAIN = "conditional(1)"
HORIZONS = (1, 2, 4, 8)
WINDOWS = (8, 16, 32)
#: Deviations below this are taken for this: a latent that stands still has no logarithm.
STILL = 1e-6
#: Share of the noise below which a less certain encoder is passed over.
NOTEWORTHY = 0.2
#: Degrees of freedom that heavy tails leave at least: one wild step shall not hide all others.
FEWEST = 0.25


def parse(name: str) -> tuple[str, int]:
    """Kind and size of a block.

    >>> parse("conditional(2)"), parse("static")
    (('conditional', 2), ('static', 0))
    """
    found = re.fullmatch(r"(conditional|moments)\(([1-9]\d*)\)|(static)", name.strip())
    if not found:
        raise ConfigError(
            f"{name!r} is not a block of evidence",
            fix="use conditional(1), static or moments(16), or other numbers of steps",
        )
    return (found[3], 0) if found[3] else (found[1], int(found[2]))


def in_steps(name: str, step: float | None) -> str:
    """A block whose size is a time, as moments(0.5s), in steps of that length.

    >>> in_steps("moments(0.5s)", 0.04), in_steps("static", 0.04)
    ('moments(12)', 'static')
    """
    found = re.fullmatch(r"(\w+)\((\d*\.?\d+)s\)", name.strip())
    if not found:
        return name
    return f"{found[1]}({max(1, round(float(found[2]) / (step or 1.0)))})"


def candidates(lags: int, steps: int) -> list[str]:
    """Blocks worth trying on series of so many steps."""
    horizons = [h for h in HORIZONS if h == 1 or 4 * (h + lags) <= steps]
    windows = [w for w in WINDOWS if 3 * w <= steps]
    names = [f"conditional({h})" for h in horizons]
    return [*names, "static", *(f"moments({w})" for w in windows)]


def memory(name: str, lags: int) -> int:
    """How many latents before the present one a block looks at."""
    kind, size = parse(name)
    return {"conditional": lags + size - 1, "static": 0, "moments": size - 1}[kind]


def middle(name: str) -> int:
    """How many steps ago lies the middle of what a block looks at.

    An answer that may look ahead takes a window for what happened there, not at its end. Of a
    conditional block the last latent is what is judged, so it looks at the present.
    """
    kind, size = parse(name)
    return (size - 1) // 2 if kind == "moments" else 0


def observed(name: str, latents: np.ndarray, position: np.ndarray) -> np.ndarray:
    """What a block sees in latents (T, S, d) of series side by side: (T, S, p), NaN without past.

    `position` (T, S) counts the steps since the last gap, -1 where nothing was observed.
    """
    kind, size = parse(name)
    return _moments(latents, position, size) if kind == "moments" else latents


def _moments(latents: np.ndarray, position: np.ndarray, window: int) -> np.ndarray:
    # sums over shifted copies: exact, and the same whether one row is asked for or all
    length, series, d = latents.shape
    out = np.full((length * series, 3 * d), np.nan)
    ready = np.flatnonzero(position >= window - 1)
    flat = latents.reshape(-1, d)
    parts = [flat[ready - lag * series] for lag in range(window)]
    mean = sum(parts) / window
    square = sum((part - mean) ** 2 for part in parts) / window
    steps = [later - earlier for later, earlier in pairwise(parts)]
    count = max(len(steps), 1)
    moved = sum((step - sum(steps) / count) ** 2 for step in steps) / count + np.zeros_like(mean)
    out[ready, :d] = mean
    out[ready, d : 2 * d] = np.log(np.sqrt(square) + STILL)
    out[ready, 2 * d :] = np.log(np.sqrt(moved) + STILL)
    return out.reshape(length, series, 3 * d)


@dataclass(frozen=True, eq=False)
class Block:
    """A block with what left-out pure series say of it."""

    name: str
    means: np.ndarray  # (K, p): what it sees in each regime, on average
    noise: np.ndarray  # (p, p): covariance of its errors within a series
    time: float  # autocorrelation time of its errors, in steps
    limit: float = np.inf  # residual that hardly any step of a pure series exceeds, if known

    @property
    def freedom(self) -> float:
        """Of a chi-squared variable whose mean is as rarely large as the errors of pure series.

        Errors of one size in all regimes and series have as many as there are values; where some
        are larger than others, the tails are as heavy as those of fewer. That excess is measured
        on few series, and others may have half as much again.
        """
        p = float(len(self.noise))

        def bound(freedom: float) -> float:
            return float(chi2.isf(1 - WITHIN, freedom)) / freedom

        usual = self.limit**2
        if not bound(p) < usual < np.inf:
            return p
        wanted = bound(p) + MARGIN * (usual - bound(p))
        if bound(FEWEST) <= wanted:
            return FEWEST
        return float(brentq(lambda freedom: bound(freedom) - wanted, FEWEST, p))

    @property
    def stranger(self) -> float:
        """Residual beyond which a step is like no pure series: somewhat more than of those."""
        return float(np.sqrt(MARGIN) * self.limit)

    @property
    def conditional(self) -> bool:
        """Whether its predictions depend on the history; else they are its `means`."""
        return parse(self.name)[0] == "conditional"

    @classmethod
    def measure(
        cls, name: str, values: np.ndarray, expected: np.ndarray | None, regime: np.ndarray
    ) -> Block:
        """From n pure series, padded with NaN: values (n, T, p), predictions (n, T, K, p) of a
        conditional block, and the regime of each series (n,).
        """
        kinds = int(regime.max()) + 1
        known = np.isfinite(values).all(-1)
        if expected is not None:
            known &= np.isfinite(expected).all((-2, -1))
        means = np.stack([values[known & (regime == k)[:, None]].mean(0) for k in range(kinds)])
        own = means[regime][:, None] if expected is None else _of_own(expected, regime)
        error = np.where(known[..., None], values - own, 0.0)
        whole = error[known]
        count = known.sum(axis=1)
        centre = error.sum(axis=1) / np.maximum(count, 1)[:, None]
        error = np.where(known[..., None], error - centre[:, None], 0.0)
        freedom = max(int(count.sum() - (count > 0).sum()), 1)
        flat = error.reshape(-1, error.shape[-1])
        noise = flat.T @ flat / freedom
        time = _autocorrelation_time(error, known)
        # few independent steps cannot tell a covariance from noise: lean on its diagonal
        trust = freedom / (freedom + len(noise) * time)
        noise = trust * noise + (1 - trust) * np.diag(np.diag(noise))
        floor = 1e-6 * np.trace(noise) / len(noise) + 1e-12
        noise = noise + floor * np.eye(len(noise))
        return cls(name, means, noise, time, _limit(whole, noise))

    def widening(self, excess: np.ndarray) -> np.ndarray | None:
        """Factor on the noise of rows (rows,) at which the encoder is less sure than usual.

        `excess` (rows, d) is by how much its variance is larger. None where none is noteworthy;
        moments are of many rows and take no notice.
        """
        if len(self.noise) != excess.shape[-1]:
            return None
        more = (excess / np.diagonal(self.noise)).mean(axis=-1)
        unusual = more > NOTEWORTHY
        return np.where(unusual, 1 + more, 1.0) if unusual.any() else None

    def evidence(
        self,
        values: np.ndarray,
        expected: np.ndarray | None,
        widen: np.ndarray | None = None,
        stacking: np.ndarray | None = None,
    ) -> Evidence:
        """What values (S, T, p) and predictions (S, T, K, p) say of alpha.

        `widen` (S, T) multiplies the noise covariance of single steps; `stacking` (K, K)
        recombines the predictions.
        """
        precision = np.linalg.inv(self.noise)
        if expected is None:
            means = self.means if stacking is None else stacking.T @ self.means
            found = Evidence.of_constant(means, values, precision)
        else:
            found = Evidence.of_block(expected, values, precision, stacking)
        if widen is not None:
            found = found.widened(widen)
        return found.tempered(1 / self.time)

    @property
    def log_det(self) -> float:
        """Log determinant of the noise covariance."""
        return float(np.linalg.slogdet(self.noise)[1])


def _limit(errors: np.ndarray, noise: np.ndarray) -> float:
    """Root mean square of whitened errors (n, p) that hardly any step of a pure series exceeds.

    What is constant in a series is part of these errors, so that another series is not by itself
    a stranger.
    """
    if not len(errors):
        return np.inf
    squares = np.einsum("ni,ij,nj->n", errors, np.linalg.inv(noise), errors) / len(noise)
    return float(np.sqrt(np.quantile(squares, WITHIN)))


def _of_own(expected: np.ndarray, regime: np.ndarray) -> np.ndarray:
    return np.take_along_axis(expected, regime[:, None, None, None], axis=2)[:, :, 0]


def _autocorrelation_time(error: np.ndarray, known: np.ndarray) -> float:
    """1 + 2 sum of autocorrelations, up to the first that is not positive.

    Where errors swing, later ones of the other sign would cancel over many periods, but alpha may
    move within one.
    """
    scale = np.sqrt((error**2).sum(axis=(0, 1)) / max(known.sum(), 1))
    white = error / np.where(scale > 0, scale, 1.0)
    alone = (white**2).sum() / max(known.sum(), 1)
    total = 1.0
    for lag in range(1, error.shape[1]):
        both = known[:, lag:] & known[:, :-lag]
        product = (white[:, lag:] * white[:, :-lag]).sum() / max(both.sum(), 1)
        if not product > 0:
            break
        total += 2 * float(product / alone)
    return total
