"""Units of the channels: which of them float32 cannot hold, and how they are rescaled first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: Float32 holds a channel well whose mean is at most this many of its scales from zero, and whose
#: scale lies between these bounds: it loses less than 1e-4 of the scale.
FARTHEST_CENTRE, LEAST_SCALE, MOST_SCALE = 1e3, 1e-12, 1e12


@dataclass(frozen=True, eq=False)
class Rescaling:
    """(x - origin) / unit in float64, applied before x becomes float32.

    Attributes
    ----------
    origin, unit : ndarray
        Of each channel; 0 and 1 where float32 holds the channel as it is.
    """

    origin: np.ndarray
    unit: np.ndarray

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return rescaled values in float64."""
        return (np.asarray(values, dtype=np.float64) - self.origin) / self.unit


def beyond_float32(centre: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return a mask of the channels of which float32 would round much away.

    >>> beyond_float32(np.array([20.0, 4.5e6, 0.0]), np.array([0.1, 0.1, 1e-30])).tolist()
    [False, True, True]
    """
    far = np.abs(centre) > FARTHEST_CENTRE * scale
    return far | (scale < LEAST_SCALE) | (scale > MOST_SCALE)
