"""Implausible cells: which they are, what they become, and how they are named."""

from __future__ import annotations

import numpy as np
import pytest

from mechtrace.data import Panel
from mechtrace.data.plausible import PlausibleRange, checked_for_training, implausible_as_missing
from mechtrace.errors import DataError, DataWarning

RANGE = PlausibleRange(np.array([0.0, 1e6]), np.array([2.0, 1.0]))


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


def channel(values: np.ndarray, **options) -> Panel:
    """Recordings (N, T) of one channel."""
    return Panel.from_arrays(values[..., None], channels=["p"], source="runs.csv", **options)


def test_the_limit_is_far_from_the_training_data_and_wide_for_a_constant_channel():
    values = np.array([[1999.0, 1e6], [-2001.0, 1e6], [np.nan, 2e6], [0.0, 1e37]])
    assert RANGE.outside(values).tolist() == [
        [False, False], [True, False], [False, False], [False, True],
    ]  # fmt: skip


@pytest.mark.parametrize("fill", [1e9, -999999, 1e30])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_fill_value_becomes_missing_and_is_named(fill, kind):
    values = noise(2, 5, 2).astype(kind) + np.array([0, 1e6], kind)
    values[1, 3, 0] = fill
    panel = Panel.from_arrays(values, names=["a", "b"], channels=["v", "p"], time=np.arange(5) / 4)
    with pytest.warns(DataWarning, match=r"'b', row 3, time 0.75: .* in channel 'v'.* 0 .* 2"):
        found = implausible_as_missing(panel, RANGE)
    assert np.flatnonzero(~found.observed()).tolist() == [8]
    assert found.values.dtype == kind
    assert panel.values[8, 0] == values[1, 3, 0]  # what the user handed over stays


def test_integers_have_missing_cells_too():
    panel = Panel.from_arrays(np.array([[[1, 10**6], [-999999, 10**6]]]))
    with pytest.warns(DataWarning, match="-999999 in channel 'x0'"):
        found = implausible_as_missing(panel, RANGE)
    assert found.observed().tolist() == [True, False]


def test_spoilt_pixels_are_named_once():
    frames = noise(1, 6, 4, 5)
    frames[0, 3, :2] = 1e20
    panel = Panel.from_arrays(frames)
    with pytest.warns(DataWarning, match=r"row 3: 1e\+20 .*and 9 more") as told:
        found = implausible_as_missing(panel, PlausibleRange(np.zeros((4, 5)), np.ones((4, 5))))
    assert len(told) == 1
    assert np.flatnonzero(~found.observed()).tolist() == [3]


def test_plausible_recordings_are_handed_on_as_they_are():
    panel = Panel.from_arrays(noise(2, 5, 2) + np.array([0, 1e6]))
    assert implausible_as_missing(panel, RANGE) is panel


def test_recordings_that_will_be_detrended_are_measured_from_their_own_level():
    level = np.array([5e4, -7e4])[:, None, None]
    values = level + noise(2, 30, 2)
    values[0, 4, 0] = 1e9
    panel = Panel.from_arrays(values)
    centred = PlausibleRange(np.zeros(2), np.full(2, 2.0))
    with pytest.warns(DataWarning, match="row 4: "):
        found = implausible_as_missing(panel, centred, around_medians=True)
    assert np.flatnonzero(~found.observed()).tolist() == [4]


def test_an_absurd_cell_is_not_learned_from():
    values = noise(3, 40)
    values[2, 7] = 1e30
    with pytest.raises(DataError, match=r"1e\+30 in channel 'p' \(series '2', row 7\).*missing="):
        checked_for_training(channel(values))
    values[0, 0] = np.nan
    with pytest.warns(DataWarning, match="series '2', row 7"):
        found = checked_for_training(channel(values, missing="gap"))
    assert np.flatnonzero(~found.observed()).tolist() == [0, 87]


def test_an_absurd_cell_is_interpolated_where_missing_ones_are():
    import pandas as pd

    frame = pd.DataFrame({"x": np.arange(50.0)})
    frame.loc[20, "x"] = -1e9
    panel = Panel.from_frame(frame, missing="interpolate")
    with pytest.warns(DataWarning, match="row 20"):
        found = checked_for_training(panel)
    assert found.values[:, 0].tolist() == list(range(50))


ORDINARY = {
    "normal": noise(4, 500),
    "heavy tails": np.random.default_rng(1).standard_t(2, (4, 500)),
    "far from zero": 1e7 + 1e-3 * noise(4, 500),
    "tiny": 1e-30 * noise(4, 500),
    "constant": np.full((4, 500), 3.0),
    "rare pulses": np.where(noise(4, 500) > 2.3, 1e5, 0.0),
    "mostly idle": np.where(noise(4, 500) > 2.3, 10 + noise(4, 500), 1e-6 * noise(4, 500)),
}


@pytest.mark.parametrize("values", ORDINARY.values(), ids=ORDINARY)
def test_ordinary_channels_are_left_alone(values):
    panel = channel(values)
    assert checked_for_training(panel) is panel


@pytest.mark.parametrize("name", [name for name in ORDINARY if name != "mostly idle"])
def test_an_absurd_cell_of_any_of_them_is_found(name):
    values = ORDINARY[name].copy()
    values[1, 3] = 1e30
    with pytest.raises(DataError, match="series '1', row 3"):
        checked_for_training(channel(values))


def test_what_loggers_write_for_no_value_is_missing_only_far_from_the_channel():
    values = np.array([[9999.0, 1e6], [-999.0, 65535.0], [19.0, 999_999.0], [500.0, 1e6 + 15]])
    assert PlausibleRange(np.array([0.0, 1e6]), np.array([5.0, 2.0])).outside(values).tolist() == [
        [True, False], [True, True], [False, False], [False, False],
    ]  # fmt: skip
