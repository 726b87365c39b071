"""Standardiser: which rows count, in chunks or not, and what a constant channel gets."""

from __future__ import annotations

import numpy as np
import pytest

from mechtrace.data import Panel, Runs, Standardiser, find_runs, standardise
from mechtrace.errors import DataError


def test_standardiser_uses_the_rows_of_the_runs_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standardise, "CHUNK_ROWS", 7)
    rng = np.random.default_rng(0)
    values = rng.standard_normal((4, 25, 3)) * [1.0, 1e-3, 50.0] + [1e6, 0.0, -3.0]
    values[:, :5] = 1e9
    values[3, 20] = np.nan
    panel = Panel.from_arrays(values, missing="gap")
    rows = [(5, 20, 0, 0), (30, 8, 1, 0), (41, 1, 1, 0), (80, 15, 3, 1)]
    runs = Runs(*np.array(rows).T)
    found = Standardiser.fit(panel, runs)
    used = panel.values[runs.row_numbers()]
    assert len(used) == 44
    np.testing.assert_allclose(found.centre, used.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.scale, used.std(axis=0), rtol=1e-9)
    monkeypatch.setattr(standardise, "CHUNK_ROWS", 10**6)
    whole = Standardiser.fit(panel, runs)
    np.testing.assert_allclose(whole.centre, found.centre, rtol=1e-12)
    np.testing.assert_allclose(whole.scale, found.scale, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_a_constant_channel_keeps_scale_one(dtype: type) -> None:
    values = np.ones((2, 60, 3))
    values[..., 0] *= 7.3
    values[..., 1] = 0
    values[..., 2] = np.arange(120).reshape(2, 60)
    panel = Panel.from_arrays(values.astype(dtype))
    found = Standardiser.fit(panel, find_runs(panel, by_regime=False))
    assert found.scale[:2].tolist() == [1.0, 1.0]
    assert found.scale[2] == pytest.approx(np.arange(120).std())
    np.testing.assert_allclose(found.centre, [float(dtype(7.3)), 0, 59.5], atol=1e-12)


def test_images_have_one_scale_but_a_centre_per_pixel() -> None:
    rng = np.random.default_rng(0)
    frames = rng.uniform(0, 255, (2, 30, 4, 5)).astype(np.float32)
    frames[:, :, 0, 0] = 9  # a dead pixel
    panel = Panel.from_arrays(frames)
    found = Standardiser.fit(panel, find_runs(panel, by_regime=False))
    flat = frames.reshape(-1, 4, 5).astype(float)
    np.testing.assert_allclose(found.centre, flat.mean(axis=0))
    np.testing.assert_allclose(found.scale, np.sqrt(flat.var(axis=0).mean()))
    assert found.scale.shape == (4, 5)
    dark = Panel.from_arrays(np.zeros((1, 5, 4, 4)))
    assert (Standardiser.fit(dark, find_runs(dark, by_regime=False)).scale == 1).all()


@pytest.mark.parametrize("unit", [1e-30, 1e-3, 1.0, 1e25])
@pytest.mark.parametrize("offset", [0.0, 1e7])
def test_whether_a_channel_varies_does_not_depend_on_its_unit(unit: float, offset: float) -> None:
    values = unit * (offset + np.random.default_rng(0).standard_normal((2, 60, 1)))
    panel = Panel.from_arrays(values)
    found = Standardiser.fit(panel, find_runs(panel, by_regime=False))
    assert found.scale[0] == pytest.approx(values.std(), rel=1e-6)


def test_values_whose_squares_overflow_are_refused_by_name() -> None:
    values = np.random.default_rng(0).standard_normal((2, 60, 2)) * [1.0, 1e200]
    panel = Panel.from_arrays(values, channels=["fine", "huge"])
    with pytest.raises(DataError, match="'huge' are too large"):
        Standardiser.fit(panel, find_runs(panel, by_regime=False))
