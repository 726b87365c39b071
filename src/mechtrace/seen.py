"""What each block of evidence sees in the rows of a panel, and what the experts expect there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import latents
from .model import SequentialVAE
from .recover.blocks import candidates, observed, parse
from .recover.choose import choose
from .recover.reference import Reference
from .recover.support import Support
from .series import Panel
from .windows import side_by_side


class Seen(NamedTuple):
    """Values of a block (T, S, p) and, if they depend on the history, predictions (T, S, K, p)."""

    values: np.ndarray
    expected: np.ndarray | None


class Encoded:
    """Latents (T, S, d) of series side by side, step by step; blocks look at them.

    `position` (T, S) counts the steps since the last gap, -1 where nothing was observed.
    """

    def __init__(self, model: SequentialVAE, mean: np.ndarray, position: np.ndarray) -> None:
        self.model, self.mean, self.position = model, mean, position

    def see(
        self, name: str, support: Support | None = None, means: np.ndarray | None = None
    ) -> Seen:
        """What a block sees; beyond the support the experts give way to the regimes' means."""
        kind, size = parse(name)
        values = observed(name, self.mean, self.position)
        if kind != "conditional":
            return Seen(values, None)
        expected = latents.predict(self.model, self.mean, self.position, size)
        if support is not None and means is not None:
            lags = range(size, size + self.model.config.lags)
            support.shrink(expected, means, self.mean, lags)
        if self.model.visible is not None:
            common = expected.mean(axis=2, keepdims=True)
            expected = common + (expected - common) @ self.model.visible.T
        return Seen(values, expected)


def gather(flat: np.ndarray, rows: np.ndarray, position: np.ndarray) -> np.ndarray:
    """(T, S, ...) of (rows, ...), NaN where nothing was observed."""
    out = flat[rows]
    hidden = position < 0
    if hidden.any():
        out[hidden] = np.nan
    return out


def measure_reference(model: SequentialVAE, pieces: Panel, regime: np.ndarray) -> Reference:
    """What stage 2 needs to know of pure series, each of one regime (n,)."""
    found = latents.encode(model, pieces)
    rows, position = side_by_side(pieces)
    mean, scale = (gather(part, rows, position) for part in (found.mean, found.scale))
    encoded = Encoded(model, mean, position)

    def material(name: str) -> tuple[np.ndarray, np.ndarray | None]:
        seen = encoded.see(name)
        expected = None if seen.expected is None else seen.expected.swapaxes(0, 1)
        return seen.values.swapaxes(0, 1), expected

    lags = model.config.lags
    names = candidates(lags, int(np.median((position >= 0).sum(axis=0))))
    choice = choose(material, names, regime, lags, pieces.groups)
    by_series = mean.swapaxes(0, 1)
    widths = scale.swapaxes(0, 1)
    return Reference.of_material(by_series, widths, material, regime, choice, pieces.groups)
