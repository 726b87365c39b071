"""Trace.recover as a user meets it, on a small model; and what it measures beforehand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mechtrace as mt
from mechtrace.errors import ConfigError, DataError, NotFitted
from mechtrace.stage2 import recovery as stage2
from mechtrace.stage2 import series_batch as stacks
from mechtrace.stage2.options import METHODS, RecoverOptions
from mechtrace.stage2.pure_statistics import PureRegimeStatistics
from mechtrace.stage2.trajectory import Trajectory

CURVES = ("alpha", "lower", "upper")


@pytest.fixture(scope="module")
def run(world):
    return world.transition("simple", series=5, seed=4)


@pytest.fixture(scope="module")
def answers(trained, run):
    return trained.recover(run.panel)


def panel_of(values: Any, **options: Any) -> mt.Panel:
    return mt.Panel.from_arrays(values, **options)


def close(left: Trajectory, right: Trajectory, tolerance: float = 1e-5) -> None:
    for part in CURVES:
        np.testing.assert_allclose(
            getattr(left, part), getattr(right, part), rtol=0, atol=tolerance
        )
    np.testing.assert_allclose(left.residual, right.residual, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(left.flag, right.flag)


# --- what comes back --------------------------------------------------------------------------


def test_many_series_give_a_list_in_the_order_of_the_panel(answers, run):
    assert [path.name for path in answers] == run.panel.names.tolist()
    for path in answers:
        assert isinstance(path, Trajectory)
        assert len(path) == 20
        assert path.regimes == ("R0", "R1", "R2")
        for part in CURVES:
            assert getattr(path, part).shape == (20, 3)
        assert path.method == "state-space"
        assert not path.causal
        assert path.level == 0.9
        assert path.trials == 1
        assert 1e-6 < path.process_noise < 1


def test_one_series_gives_a_trajectory(trained, run, answers):
    alone = trained.recover(run.panel[2:3])
    assert isinstance(alone, Trajectory)
    assert alone.name == run.panel.names[2]
    close(alone, answers[2])


def test_weights_lie_on_the_simplex_inside_their_intervals(answers):
    for path in answers:
        np.testing.assert_allclose(path.alpha.sum(axis=1), 1, atol=1e-9)
        assert path.alpha.min() >= 0
        assert (path.lower <= path.alpha).all()
        assert (path.alpha <= path.upper).all()
        assert path.lower.min() >= 0
        assert path.upper.max() <= 1


def test_without_the_simplex_weights_still_sum_to_one(trained, run):
    free = trained.recover(run.panel, simplex=False)
    alpha = np.stack([path.alpha for path in free])
    np.testing.assert_allclose(alpha.sum(axis=-1), 1, atol=1e-9)
    assert alpha.min() < 0
    assert min(path.lower.min() for path in free) < 0


def test_the_first_rows_are_warm_up(trained, answers):
    lags = trained.lags
    for path in answers:
        assert path.flag[:lags].tolist() == ["warm-up"] * lags
        assert "warm-up" not in path.flag[lags:]
        assert np.isnan(path.residual[:lags]).all()
        assert np.isfinite(path.residual[lags:]).all()


def test_pure_recordings_of_the_training_world_are_told_apart(world, trained):
    test = world.simulate(15, seed=9)
    found = trained.recover(test.panel)
    share = np.stack([path.alpha[2:].mean(axis=0) for path in found])
    own = share[np.arange(len(share)), test.label].mean()
    others = (1 - share[np.arange(len(share)), test.label]).mean() / 2
    assert own > others + 0.1  # a tiny model, but not a blind one
    residual = np.concatenate([path.residual[4:] for path in found])
    assert 0.7 < np.sqrt((residual**2).mean()) < 1.4


def test_the_frame_has_the_documented_columns(answers):
    path = answers[1]
    frame = path.to_frame()
    assert frame.columns.tolist() == [
        *("time", "R0", "R1", "R2"),
        *("R0_lower", "R0_upper", "R1_lower", "R1_upper", "R2_lower", "R2_upper"),
        *("residual", "flag"),
    ]
    np.testing.assert_array_equal(frame["time"], np.arange(20))
    np.testing.assert_array_equal(frame[["R0", "R1", "R2"]].to_numpy(), path.alpha)
    np.testing.assert_array_equal(frame["R2_lower"], path.lower[:, 2])
    np.testing.assert_array_equal(frame["R0_upper"], path.upper[:, 0])
    assert frame["flag"].tolist() == path.flag.tolist()


# --- names and time ---------------------------------------------------------------------------


def test_names_and_dates_are_kept(trained, run, answers):
    start = np.datetime64("2024-03-01T06:00:00", "ns")
    stamps = [start + np.arange(20) * np.timedelta64(1, "s") + i * np.timedelta64(1, "D")
              for i in range(2)]  # fmt: skip
    found = trained.recover(panel_of(run.observations[:2], time=stamps, names=["b", "a"]))
    assert [path.name for path in found] == ["b", "a"]
    for path, time, plain in zip(found, stamps, answers, strict=False):
        assert path.time.dtype == np.dtype("datetime64[ns]")
        np.testing.assert_array_equal(path.time, time)
        close(path, plain)
        np.testing.assert_array_equal(path.to_frame()["time"].to_numpy(), time)
        for event in path.events():
            assert event.onset in time
            assert event.duration >= np.timedelta64(0, "s")


def test_plain_numbers_of_time_are_kept(trained, run, answers):
    time = 100.5 + np.arange(20)
    path = trained.recover(panel_of(run.observations[:1], time=time))
    np.testing.assert_array_equal(path.time, time)
    close(path, answers[0])


# --- gaps and lengths -------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
def test_missing_rows_are_flagged_and_less_certain(trained, run, causal):
    values = run.observations.copy()
    values[:, 10:12, 3] = np.nan
    found = trained.recover(panel_of(values, missing="gap"), causal=causal, simplex=False)
    width = np.stack([path.upper - path.lower for path in found])
    for path in found:
        # two rows without values, then `lags` rows without a history
        assert path.flag[10:14].tolist() == ["missing"] * 4
        assert not {"missing", "warm-up"} & set(path.flag[[*range(2, 10), *range(14, 20)]])
        assert np.isnan(path.residual[10:14]).all()
        assert np.isfinite(path.alpha).all()
    if causal:
        assert (np.diff(width[:, 9:14], axis=1) > 0).all()  # ever less certain
    else:
        total = width.mean(axis=2)  # over the regimes
        assert (total[:, 11:13].min(axis=1) > total[:, 9]).all()
        whole = trained.recover(run.panel, simplex=False)
        seen = np.stack([path.upper - path.lower for path in whole]).mean(axis=2)
        assert (total.mean(axis=0)[10:14] > seen.mean(axis=0)[10:14]).all()


def test_a_jump_in_time_is_a_gap(trained, run):
    time = np.arange(20.0)
    time[10:] += 30
    path = trained.recover(panel_of(run.observations[:1], time=time), simplex=False)
    assert path.flag[10:12].tolist() == ["missing"] * 2
    whole = trained.recover(panel_of(run.observations[:1]), simplex=False)
    assert whole.flag[10] != "missing"
    # over the regimes: errors of single mechanisms, which count too, differ between the two
    assert (path.upper - path.lower)[10:12].mean() > (whole.upper - whole.lower)[10:12].mean()


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"method": "algorithm1"}])
def test_unequal_lengths_equal_one_by_one(trained, run, options):
    lengths = [20, 7, 13, 2, 4]
    panel = panel_of([run.observations[i, :n] for i, n in enumerate(lengths)])
    together = trained.recover(panel, **options)
    assert [len(path) for path in together] == lengths
    for i, path in enumerate(together):
        alone = trained.recover(panel[[i]], **options)
        assert alone.name == path.name
        close(path, alone)


def test_groups_of_series_do_not_change_the_answer(trained, run, answers, monkeypatch):
    monkeypatch.setattr(stacks, "GROUP_ROWS", 45)
    sizes = [len(part) for part in stacks.groups(run.panel.lengths)]
    assert sizes == [2, 2, 1]
    for path, whole in zip(trained.recover(run.panel), answers, strict=True):
        assert path.name == whole.name
        close(path, whole)


@pytest.mark.parametrize("rows", [1, 20, 60, 10**9])
def test_groups_hold_every_series_once_within_the_limit(monkeypatch, rows):
    monkeypatch.setattr(stacks, "GROUP_ROWS", rows)
    lengths = np.array([5, 20, 1, 7, 20, 3])
    groups = list(stacks.groups(lengths))
    assert sorted(np.concatenate(groups).tolist()) == list(range(6))
    for group in groups:
        assert len(group) == 1 or len(group) * lengths[group].max() <= rows


def test_the_order_of_the_series_does_not_matter(trained, run, answers):
    order = [3, 0, 4, 2, 1]
    turned = trained.recover(run.panel[order])
    assert [path.name for path in turned] == run.panel.names[order].tolist()
    for path, i in zip(turned, order, strict=True):
        close(path, answers[i])


# --- causal -----------------------------------------------------------------------------------


@pytest.mark.parametrize("simplex", [True, False])
@pytest.mark.parametrize("stop", [1, 3, 9, 19])
def test_a_causal_answer_does_not_know_the_future(trained, run, stop, simplex):
    whole = trained.recover(run.panel[:1], causal=True, simplex=simplex)
    start = trained.recover(panel_of(run.observations[:1, :stop]), causal=True, simplex=simplex)
    assert start.causal
    for part in CURVES:
        np.testing.assert_allclose(
            getattr(start, part), getattr(whole, part)[:stop], rtol=0, atol=1e-9
        )


def test_a_causal_answer_with_uneven_times_does_not_know_the_future(trained, run):
    time = np.cumsum(np.random.default_rng(0).choice([0.9, 1.0, 1.1], 20))
    whole = trained.recover(panel_of(run.observations[:1], time=time), causal=True)
    start = trained.recover(panel_of(run.observations[:1, :9], time=time[:9]), causal=True)
    for part in CURVES:
        np.testing.assert_allclose(
            getattr(start, part), getattr(whole, part)[:9], rtol=0, atol=1e-9
        )


@pytest.mark.parametrize("causal", [True, False])
def test_a_slice_of_a_panel_answers_as_the_panel_does(trained, run, causal):
    """Also where one step lies between 1.5 times the steps of the recording and of training."""
    slow, fast = np.arange(20.0), 0.85 * np.arange(20)
    fast[10:] += 0.5
    panel = panel_of(run.observations[:3], time=[fast, fast, slow])
    whole = trained.recover(panel, causal=causal)[0]
    close(trained.recover(panel[:1], causal=causal), whole)
    close(trained.recover(panel[:2].without_labels()[:1], causal=causal), whole)


def test_causal_and_offline_differ(trained, run, answers):
    causal = trained.recover(run.panel[:1], causal=True)
    assert np.abs(causal.alpha - answers[0].alpha).max() > 0.01
    np.testing.assert_allclose(causal.alpha[:2], 1 / 3, atol=1e-6)  # nothing seen yet


# --- pooling ----------------------------------------------------------------------------------


def test_pooling_trials_narrows_the_intervals(world, trained):
    values = world.transition("simple", series=500, seed=5).observations
    one = trained.recover(panel_of(values[:1]), simplex=False)
    width = one.upper - one.lower
    ratio = []
    for copies in (5, 50, 500):
        many = trained.recover(panel_of(values[:copies]), pool=True, simplex=False)
        assert isinstance(many, Trajectory)
        assert many.name == "pooled"
        assert many.trials == copies
        narrow = many.upper - many.lower
        # a few copies may also say that alpha moves faster, and widen a step
        assert (narrow[2:] < width[2:]).mean() > 0.9
        ratio.append(narrow[2:].mean() / width[2:].mean())
    assert ratio[1] < ratio[0] < 0.8
    assert ratio[2] == pytest.approx(ratio[1], rel=0.1)  # errors of the mechanisms remain


def test_pooling_one_series_changes_nothing(trained, run, answers):
    one = trained.recover(run.panel[:1], pool=True)
    assert one.trials == 1
    for part in (*CURVES, "residual"):
        np.testing.assert_allclose(getattr(one, part), getattr(answers[0], part), atol=1e-6)


def test_pooling_gets_closer_to_the_truth_than_single_series(world, trained):
    many = world.transition("simple", series=40, seed=5)
    truth = many.alpha[0, 2:]
    single = np.mean([np.abs(p.alpha[2:] - truth).mean() for p in trained.recover(many.panel)])
    pooled = trained.recover(many.panel, pool=True)
    assert np.abs(pooled.alpha[2:] - truth).mean() < single
    assert pooled.flag[0] == "warm-up"


@pytest.mark.parametrize("dates", [False, True])
def test_stamps_that_differ_by_rounding_are_pooled(trained, run, dates):
    counted = np.arange(20) * 1.1
    summed = np.cumsum(np.full(20, 1.1)) - 1.1 + 1e-6
    times = [counted, summed]
    if dates:
        start = np.datetime64("2024-05-01", "ns")
        times = [start + np.round(time * 1e9).astype("timedelta64[ns]") for time in times]
    assert (times[0] != times[1]).any()
    found = trained.recover(panel_of(run.observations[:2], time=times), pool=True)
    same = trained.recover(panel_of(run.observations[:2], time=times[:1] * 2), pool=True)
    close(found, same)
    shifted = [times[0], times[1] + (times[1][1] - times[1][0]) / 10]
    with pytest.raises(DataError, match="different time stamps"):
        trained.recover(panel_of(run.observations[:2], time=shifted), pool=True)
    with pytest.raises(DataError, match="different time stamps"):
        trained.recover(panel_of(run.observations[:2, :1], time=[[0], [1]]), pool=True)


def test_series_of_unequal_length_cannot_be_pooled(trained, run):
    panel = panel_of([run.observations[0], run.observations[1, :12]])
    with pytest.raises(DataError, match="12 to 20 rows"):
        trained.recover(panel, pool=True)


# --- choices ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("active", [["R0", "R2"], ["R2", "R0"], ["R1", "R2"]])
def test_inactive_regimes_have_no_weight(trained, run, method, active):
    for path in trained.recover(run.panel, method=method, active=active):
        assert path.regimes == ("R0", "R1", "R2")
        off = [k for k, name in enumerate(path.regimes) if name not in active]
        for part in CURVES:
            assert not getattr(path, part)[:, off].any()
        np.testing.assert_allclose(path.alpha[2:].sum(axis=1), 1, atol=1e-9)


def test_naming_all_regimes_is_the_same_as_naming_none(trained, run, answers):
    found = trained.recover(run.panel, active=["R2", "R1", "R0"])
    for path, plain in zip(found, answers, strict=True):
        close(path, plain, 1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "magic"},
        {"method": "algorithm1", "causal": True},
        {"level": 0.0},
        {"level": 1.0},
        {"level": 90},
        {"level": float("nan")},
        {"window": -1},
        {"active": []},
        {"active": ["R0"]},
        {"active": ["R0", "R0"]},
        {"active": ["R0", "R9"]},
        {"active": "R0"},
    ],
)
def test_what_cannot_be_done_is_refused(trained, run, options):
    with pytest.raises(ConfigError):
        trained.recover(run.panel, **options)


def test_a_higher_level_is_wider(trained, run):
    half, most = (
        trained.recover(run.panel[:1], level=level, simplex=False) for level in (0.5, 0.95)
    )
    np.testing.assert_array_equal(half.alpha, most.alpha)
    assert (most.upper - most.lower).mean() > 1.3 * (half.upper - half.lower).mean()
    assert most.level == 0.95


def test_the_papers_method_is_its_parts(trained, run):
    from mechtrace.stage2.algorithm1 import centred_window, static_weights

    found = trained.recover(run.panel, method="algorithm1", window=3)
    # stage 2 works in the coordinates of the network, whatever the axes that a user sees
    latents = trained.axes_.native(np.stack(trained.encode(run.panel)))
    weights = static_weights(latents, trained.statistics_.means)
    weights[:, : trained.lags] = np.nan
    expected = centred_window(weights, 3)
    for path, alpha in zip(found, expected, strict=True):
        assert path.method == "algorithm1"
        np.testing.assert_allclose(path.alpha, alpha, rtol=0, atol=1e-5)
        known = np.isfinite(path.alpha)
        assert (path.lower[known] <= path.alpha[known]).all()
        assert (path.alpha[known] <= path.upper[known]).all()
    assert np.isnan(found[0].alpha[:2]).all()


def test_only_steps_without_a_whole_window_have_the_interval_of_a_single_step():
    request = RecoverOptions(method="algorithm1", window=5)
    weights = np.zeros((1, 40, 2))
    weights[..., 0] = 1.0  # the mean of exact ones is one: smoothing does not show in the value
    weights[0, 25] = np.nan
    _, left = stage2._smoothed(weights, request)
    alone = np.zeros(40, bool)
    alone[:5] = alone[-5:] = alone[20:31] = True
    np.testing.assert_allclose(left[0, :, 0], np.where(alone, 1.0, 1 / 11))


def test_the_papers_method_is_causal_without_its_window(trained, run):
    options = {"method": "algorithm1", "window": 0, "causal": True}
    whole = trained.recover(run.panel[:1], **options)
    start = trained.recover(panel_of(run.observations[:1, :9]), **options)
    np.testing.assert_allclose(start.alpha, whole.alpha[:9], rtol=0, atol=1e-6)
    offline = trained.recover(run.panel[:1], method="algorithm1", window=5)
    assert np.nanmax(np.abs(offline.alpha - whole.alpha)) > 1e-3


def test_a_foreign_recording_is_not_explained(trained, run):
    values = run.observations[:1].copy()
    values[0, 10] += 25 * values.std()
    path = trained.recover(panel_of(values))
    assert path.flag[10] == "unexplained"
    assert path.residual[10] > 5
    plain = trained.recover(run.panel[:1])
    assert plain.flag[10] != "unexplained"


def test_unknown_stretches_are_flagged_unless_the_answer_is_causal(trained, run, monkeypatch):
    def second_half(information, alpha, *_):
        return np.arange(alpha.shape[1]) >= alpha.shape[1] // 2 + np.zeros((len(alpha), 1), int)

    monkeypatch.setattr(stage2, "unknown_rows", second_half)
    for options in ({}, {"pool": True}, {"causal": True}, {"method": "algorithm1"}):
        path = trained.recover(run.panel, **options)
        path = path if options.get("pool") else path[0]
        late = path.flag[len(path) // 2 :] == "unexplained"
        assert late.all() if options in ({}, {"pool": True}) else late.mean() < 0.5


# --- files and refusals -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"causal": True}, {"pool": True}, {"method": "algorithm1"}]
)
def test_a_stored_model_gives_the_same_answer(trained, run, tmp_path, options):
    trained.save(tmp_path / "model.mechtrace")
    again = mt.load(tmp_path / "model.mechtrace")
    left, right = (model.recover(run.panel, **options) for model in (trained, again))
    pairs = [(left, right)] if "pool" in options else zip(left, right, strict=True)
    for one, other in pairs:
        for part in (*CURVES, "residual", "flag"):
            np.testing.assert_array_equal(getattr(one, part), getattr(other, part))


def test_a_model_that_was_never_fitted_cannot_recover(run):
    with pytest.raises(NotFitted):
        mt.Trace(latents=4).recover(run.panel)


def test_other_channels_are_refused(trained, run):
    with pytest.raises(DataError, match="shape"):
        trained.recover(panel_of(run.observations[:, :, :5]))


# --- the statistics ----------------------------------------------------------------------------


def test_the_statistics_survive_storage(trained):
    statistics = trained.statistics_
    again = PureRegimeStatistics.from_arrays(statistics.arrays())
    assert again is not None
    before, after = statistics.arrays(), again.arrays()
    assert before.keys() == after.keys()
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value)
    assert again.selection == statistics.selection
    assert PureRegimeStatistics.from_arrays({}) is None


def test_the_statistics_of_a_fit_are_of_its_latents(trained, panel):
    statistics = trained.statistics_
    assert statistics.means.shape == (3, 4)
    assert statistics.noise.shape == (3, 4, 4)
    for block in statistics.models.values():
        assert np.linalg.eigvalsh(block.noise).min() > 0
    latents = trained.axes_.native(np.stack(trained.encode(panel)))[:, 2:]
    own = latents.reshape(3, 12, 18, 4).mean(axis=(1, 2))
    deviation = np.sqrt(np.diagonal(statistics.spread))
    assert (np.abs(statistics.means - own) < 1.5 * deviation).all()


@pytest.mark.parametrize("smoother", ["rule", "gcv", 2.0])
def test_algorithm1_with_the_smoother_of_theorem_3(trained, run, smoother):
    window = trained.recover(run.panel, method="algorithm1")
    for path, other in zip(
        trained.recover(run.panel, method="algorithm1", smoother=smoother), window, strict=True
    ):
        np.testing.assert_allclose(path.alpha.sum(axis=1), 1, atol=1e-9)
        assert np.nanmax(np.abs(path.alpha - other.alpha)) > 1e-3
        assert (path.lower <= path.alpha + 1e-12).all()


@pytest.mark.parametrize(
    "wrong", [{"smoother": "none"}, {"smoother": -1.0}, {"smoother": "gcv", "causal": True}]
)
def test_other_smoothers_are_refused(trained, run, wrong):
    with pytest.raises(ConfigError):
        trained.recover(run.panel, method="algorithm1", window=0, **wrong)


def test_the_regimes_that_take_part_can_be_looked_for(trained, run, monkeypatch):
    monkeypatch.setattr(stage2, "choose_active", lambda evidence, elapsed: [0, 2])
    told = trained.recover(run.panel, pool=True, active=["R0", "R2"])
    found = trained.recover(run.panel, pool=True, active="auto")
    np.testing.assert_array_equal(found.alpha, told.alpha)
    assert not found.alpha[:, 1].any()


def test_every_recording_is_asked_for_them(small):
    world = mt.worlds.make("paper-positive", regimes=3, latents=4, channels=6, length=20)
    trace = mt.Trace(**small | {"steps": 600})
    trace.fit(world.simulate(60).panel, progress=False)
    many = world.transition("simple", series=50, active=[0, 1], seed=4).observations
    few = world.transition("constant", series=10, active=[2], seed=5).observations
    paths = trace.recover(panel_of([*many, *few]), active="auto")
    assert np.mean([path.alpha[:, 2] for path in paths[50:]]) > 0.6


def test_looking_for_them_changes_nothing_where_all_are_needed(trained, run):
    paths = trained.recover(run.panel, active="auto")
    assert len(paths) == len(run.panel)
    for path in paths:
        np.testing.assert_allclose(path.alpha.sum(axis=1), 1, atol=1e-9)


# --- little or nothing to go by ---------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
def test_series_without_any_evidence_get_the_prior(trained, run, causal):
    short = run.observations[0, :1]
    hidden = np.full_like(run.observations[0], np.nan)
    three = panel_of([short, hidden, run.observations[0]], missing="gap")
    found = trained.recover(three, causal=causal)
    for path in found[:2]:
        np.testing.assert_allclose(path.alpha, 1 / 3, atol=1e-6)
        assert set(path.flag.tolist()) == {"warm-up"}
        assert not path.events()
        diagnosis = trained.diagnose(path)
        assert diagnosis.verdict == "do not trust"
    alone = trained.recover(run.panel[:1], causal=causal)
    close(found[2], alone)


def test_scaling_and_shifting_channels_changes_nothing(panel, run, small):
    scale = 10.0 ** np.arange(-3, 3)
    shift = np.linspace(-50, 50, 6) * scale
    moved = mt.Panel.from_arrays(
        np.stack(panel.to_arrays()) * scale + shift,
        regime=[panel.regime_names_of(i)[0] for i in range(len(panel))],
    )
    plain, other = (mt.Trace(**small).fit(p, progress=False) for p in (panel, moved))
    same = other.recover(panel_of(run.observations * scale + shift), simplex=False)
    for path, again in zip(plain.recover(run.panel, simplex=False), same, strict=True):
        # training in single precision follows the rounding of the channels a little
        np.testing.assert_allclose(again.alpha, path.alpha, atol=0.05)
