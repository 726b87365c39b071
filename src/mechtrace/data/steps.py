"""Steps in time: their usual length, and which of them continue a recording."""

from __future__ import annotations

import numpy as np

#: A step up to this many usual ones is no gap, unless it is given.
USUAL_LIMIT = 1.5
#: Steps of two to this many usual ones are jitter of the clock if they are regular.
LONGEST_JITTER = 5
#: Share of all steps, and number of them, from which steps of one length are regular.
REGULAR_SHARE, REGULAR_COUNT = 0.01, 5


def time_steps(time: np.ndarray) -> np.ndarray:
    """Return steps in time as floats, in seconds for dates."""
    if time.dtype.kind == "M":
        return np.diff(time.view(np.int64)) / 1e9
    return np.diff(time).astype(np.float64)


def longest_step(steps: np.ndarray) -> float:
    """Return the longest step that continues a recording, judged by all steps.

    It is 1.5 usual (median) steps. A logger that now and then takes two seconds instead of one
    makes steps of two usual ones regular: they continue a recording, too, and so on up to five.
    A single step of that length is a row that is missing.

    Parameters
    ----------
    steps : ndarray
        Steps inside the recordings.

    Returns
    -------
    float
        The limit; infinite without steps.

    Examples
    --------
    >>> longest_step(np.array([1.0] * 99 + [2.0])), longest_step(np.array([1.0] * 90 + [2.0] * 10))
    (1.5, 2.5)
    """
    if not len(steps):
        return float("inf")
    usual = float(np.median(steps))
    if not usual > 0:
        return USUAL_LIMIT * usual
    counts = np.bincount(np.minimum(steps / usual + 0.5, LONGEST_JITTER + 1).astype(int),
                         minlength=LONGEST_JITTER + 1)  # fmt: skip
    least = max(REGULAR_COUNT, REGULAR_SHARE * len(steps))
    lengths = range(2, LONGEST_JITTER + 1)
    regular = next((k - 1 for k in lengths if counts[k] < least), LONGEST_JITTER)
    return (regular + USUAL_LIMIT - 1) * usual
