"""Stretches that no mixture explains: found, priced and tolerated."""

from __future__ import annotations

import time

import numpy as np
import pytest

from mechtrace.stage2.unknown import Errors, _chosen, unknown_stretches

P, M = 5, 2


def errors(steps=300, seed=0, *, tolerated=0.0, trials=1):
    rng = np.random.default_rng(seed)
    slope = rng.standard_normal((steps, P, M))
    return slope, Errors(
        np.sqrt(trials) * rng.standard_normal((steps, P)),
        np.full(steps, trials),
        trials * np.einsum("tpm,tpn->mnt", slope, slope),
        np.zeros((M, steps)),
        np.full(steps, tolerated * trials),
    )


def scored(slope, found):
    return found._replace(score=np.einsum("tpm,tp->mt", slope, found.error))


def overlap(found, inside):
    return 2 * (found & inside).sum() / (found.sum() + inside.sum())


def test_noise_is_no_news():
    share = [unknown_stretches(scored(*errors(seed=seed))).mean() for seed in range(30)]
    assert np.mean(share) < 0.02


@pytest.mark.parametrize("kind", ["direction", "shares"])
def test_a_steady_error_is_found_where_it_is(kind):
    slope, found = errors()
    inside = np.zeros(300, bool)
    inside[100:200] = True
    way = np.array([1.0, 0, 0, 0, 0]) if kind == "direction" else 0.4 * slope @ np.array([1.0, 0])
    found = scored(slope, found._replace(error=found.error + inside[:, None] * way))
    assert overlap(unknown_stretches(found), inside) > 0.9


def test_what_the_model_may_be_wrong_by_is_tolerated():
    slope, usual = errors()
    usual = scored(slope, usual._replace(error=usual.error + np.array([0.7, 0, 0, 0, 0])))
    assert unknown_stretches(usual).mean() > 0.8
    assert not unknown_stretches(usual._replace(tolerated=np.full(300, 0.5))).any()


def test_trials_that_err_alike_count_together():
    slope, found = errors(trials=25)
    inside = np.zeros(300, bool)
    inside[100:200] = True
    way = inside[:, None] * np.array([0.2, 0, 0, 0, 0])
    pooled = scored(slope, found._replace(error=found.error + 25 * way))
    assert overlap(unknown_stretches(pooled), inside) > 0.8
    slope, found = errors()
    assert not unknown_stretches(scored(slope, found._replace(error=found.error + way))).any()


def test_missing_rows_and_short_recordings_say_nothing():
    slope, found = errors(steps=6)
    assert not unknown_stretches(scored(slope, found)).any()
    slope, found = errors()
    error = np.zeros((300, P))
    empty = Errors(error, np.zeros(300, int), 0 * found.A, found.score, found.tolerated)
    assert not unknown_stretches(empty).any()


def test_a_run_of_stretches_pays_once():
    first, stop = np.array([0, 8, 40]), np.array([8, 16, 48])
    found = _chosen(60, first, stop, np.array([3.0, 3.0, 3.0]))
    assert found[:16].all()
    assert not found[16:].any()
    assert not _chosen(60, first[1:], stop[1:], np.array([3.0, 3.0])).any()


def test_the_search_takes_linear_time():
    def seconds(steps):
        found = scored(*errors(steps=steps))
        start = time.perf_counter()
        unknown_stretches(found)
        return time.perf_counter() - start

    seconds(1000)
    assert seconds(40_000) < 40 * seconds(4_000)
