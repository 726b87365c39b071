"""Rough streams: shares on the simplex after every row, equal to the causal answer of a batch."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from fuzz.guard import cases
from fuzz.streams import rows

import mechtrace as mt
from mechtrace.errors import DataError, DataWarning

pytestmark = pytest.mark.fuzz


def check(trace, seed):
    """Feed one stream; return how often each kind of row came."""
    stream, accepted, estimates, kinds = trace.stream(), [], [], []
    for fed in rows(seed, len(trace.channels_)):
        kinds.append(fed.kind)
        if fed.kind == "refused":
            with pytest.raises(DataError):
                stream.update(fed.row, fed.time)
            continue
        estimates.append(stream.update(fed.row, fed.time))
        accepted.append(fed)
    values = np.array([fed.row for fed in accepted], dtype=float)
    panel = mt.Panel.from_arrays([values], time=[[fed.time for fed in accepted]], missing="gap")
    batch = trace.recover(panel, causal=True)
    for name in ("alpha", "lower", "upper"):
        streamed = np.stack([getattr(one, name) for one in estimates])
        assert np.isfinite(streamed).all()
        assert np.abs(streamed - getattr(batch, name)).max() < 1e-8
    assert batch.alpha.min() >= -1e-12
    assert np.abs(batch.alpha.sum(axis=1) - 1).max() < 1e-9
    unseen = np.array([fed.kind != "good" for fed in accepted])
    assert np.isin(batch.flag[unseen], ("missing", "warm-up")).all()
    return kinds


def test_rough_streams_equal_the_causal_batch(trained):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        kinds = [kind for seed in cases(200, at_least=12) for kind in check(trained, seed)]
    assert {"good", "missing", "implausible", "refused"} == set(kinds)
