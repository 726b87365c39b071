"""Features: window moments of latents."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mechtrace.stage2.series_batch import LEAST_DEVIATION, window_moments


def slow_moments(z: np.ndarray, window: int) -> np.ndarray:
    steps = np.diff(z[-window:], axis=0)
    deviation = np.log(z[-window:].std(axis=0) + LEAST_DEVIATION)
    moved = steps.std(axis=0) if len(steps) else np.zeros(z.shape[1])
    return np.concatenate([z[-window:].mean(axis=0), deviation, np.log(moved + LEAST_DEVIATION)])


@given(st.integers(1, 9), st.integers(0, 10_000))
def test_moments_equal_the_slow_way_and_start_anew_after_a_gap(window, seed):
    z = np.random.default_rng(seed).standard_normal((25, 3))
    position = np.concatenate([np.arange(12), np.arange(13)])  # a gap after twelve rows
    found = window_moments(z[:, None], position[:, None], window)[:, 0]
    for row in range(25):
        first = 0 if row < 12 else 12
        if position[row] < window - 1:
            assert np.isnan(found[row]).all()
        else:
            np.testing.assert_allclose(found[row], slow_moments(z[first : row + 1], window))


def test_a_few_rows_are_seen_as_in_the_whole():
    z = np.random.default_rng(0).standard_normal((500, 2))
    both = np.stack([z, z[::-1]], axis=1)  # beside another series
    whole = window_moments(both, np.arange(500)[:, None].repeat(2, 1), 16)[-1, 0]
    alone = window_moments(z[-16:, None], np.arange(16)[:, None], 16)[-1, 0]
    np.testing.assert_array_equal(whole, alone)


class Counted(np.ndarray):
    """An array that counts the elementwise operations on it."""

    calls = 0

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        Counted.calls += 1
        plain = [np.asarray(x) if isinstance(x, Counted) else x for x in inputs]
        if out is not None:
            options["out"] = tuple(np.asarray(x) for x in out)
        found = getattr(ufunc, method)(*plain, **options)
        return found.view(Counted) if out is None else out[0]


def test_the_work_for_a_window_grows_with_its_length_not_with_its_square():
    z = np.random.default_rng(0).standard_normal((300, 1, 2)).view(Counted)
    calls = []
    for window in (32, 64):
        Counted.calls = 0
        window_moments(z, np.arange(300)[:, None], window)
        calls.append(Counted.calls)
    assert 0 < calls[1] < 2.2 * calls[0]


def test_a_window_that_stands_still_after_large_values_has_no_deviation():
    z = np.full((5000, 1, 1), 1e3)
    z[:2000, 0, 0] += 1e3 * np.random.default_rng(0).standard_normal(2000)
    found = window_moments(z, np.arange(5000)[:, None], 16)[-1, 0]
    np.testing.assert_allclose(found, [1e3, np.log(1e-6), np.log(1e-6)])
