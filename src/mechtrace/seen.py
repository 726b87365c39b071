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
from .windows import crop_rows, positions


class Seen(NamedTuple):
    """Values (rows, p) of a block and, if they depend on the history, predictions (rows, K, p)."""

    values: np.ndarray
    expected: np.ndarray | None


class Encoded:
    """Rows of latents; blocks look at them.

    `position` (rows,) counts the rows since the last gap, -1 where a row was not observed.
    """

    def __init__(
        self, model: SequentialVAE, mean: np.ndarray, position: np.ndarray | None = None
    ) -> None:
        self.model, self.mean = model, mean
        self.position = np.arange(len(mean)) if position is None else position

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
            lags = self.model.config.lags
            ready = np.flatnonzero(self.position >= lags + size - 1)
            support.shrink(expected, means, self.mean, ready, range(size, size + lags))
        return Seen(values, expected)


def measure_reference(model: SequentialVAE, pieces: Panel, regime: np.ndarray) -> Reference:
    """What stage 2 needs to know of pure series, each of one regime (n,)."""
    found = latents.encode(model, pieces)
    encoded = Encoded(model, found.mean, positions(pieces))
    place, real = crop_rows(pieces.offsets[:-1], pieces.lengths, int(pieces.lengths.max()))

    def padded(flat: np.ndarray) -> np.ndarray:
        mask = real.reshape(*real.shape, *[1] * (flat.ndim - 1))
        return np.where(mask, flat[place], np.nan)

    def material(name: str) -> tuple[np.ndarray, np.ndarray | None]:
        seen = encoded.see(name)
        return padded(seen.values), None if seen.expected is None else padded(seen.expected)

    mean, lags = padded(found.mean), model.config.lags
    names = candidates(lags, int(np.median(np.isfinite(mean).all(-1).sum(axis=1))))
    choice = choose(material, names, regime, lags)
    return Reference.of_material(mean, padded(found.scale), material, regime, choice)
