"""Recovery without some of the sensors: they are filled in, and their own errors do not count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..data.panel import Panel
from ..errors import ConfigError
from .imputation import Imputation
from .observation_models import CHANNELS
from .pure_statistics import PureRegimeStatistics


def without_channels(
    statistics: PureRegimeStatistics,
    panel: Panel,
    names: Sequence[str],
) -> tuple[PureRegimeStatistics, Panel]:
    """Marginalise channels of a recording.

    The mechanism of each regime predicts from a history in which they are filled in by what came
    before, as in that regime; it is as uncertain as that. Prediction errors in the direction of
    these channels are left out.

    Raises
    ------
    ConfigError
        If the model does not allow it.
    """
    missing = sorted(panel.channels.index(name) for name in check(statistics, panel, names))
    assert statistics.channels is not None
    assert statistics.experts is not None
    known, seed = statistics.channels, statistics.seed
    filled = Imputation.of(known, missing, seed)
    own = [Imputation.of(known, missing, seed, k) for k in range(statistics.experts.regimes)]
    experts = statistics.experts.without(missing, own)
    model = statistics.models[CHANNELS]
    turn = np.linalg.solve(statistics.experts.axes, experts.axes)
    noise = turn.T @ model.noise @ turn
    noise[np.diag_indices_from(noise)] += np.diagonal(noise) == 0
    models = statistics.models | {CHANNELS: replace(model, noise=noise, means=model.means @ turn)}
    effects = statistics.effects if statistics.effects is None else statistics.effects.turned(turn)
    values = np.array(panel.values, float)
    for a, b in zip(panel.offsets[:-1], panel.offsets[1:], strict=True):
        values[a:b] = filled.fill(values[a:b])
    recorded = panel.values if panel.recorded is None else panel.recorded
    panel = replace(panel, values=values, recorded=np.asarray(recorded))
    return replace(statistics, experts=experts, models=models, effects=effects), panel


def check(statistics: PureRegimeStatistics, panel: Panel, names: Sequence[str]) -> list[str]:
    """Return the channels to leave out, once each; raise ConfigError if that is impossible."""
    for name in names:
        if name not in panel.channels:
            fix = f"the sensors are {', '.join(panel.channels)}"
            raise ConfigError(f"there is no sensor {name!r} to leave out", fix=fix)
    known = statistics.channels
    if statistics.tested.name != CHANNELS or known is None or known.regimes is None:
        raise ConfigError(
            "this model cannot do without a sensor: it reads regimes off all of them together, has"
            " more than 16, or is of an earlier version",
            fix="fit a model to the other sensors",
        )
    if len(set(names)) > len(panel.channels) - 2:
        raise ConfigError("at least two sensors are needed", fix="leave out fewer")
    return list(dict.fromkeys(names))
