"""Statistics of pure regimes: means, noise, observation models and the support of the experts.

Noise and predictions are measured on series held out from training; means, covariances and
support of the latents on all labelled rows.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np

from ..data.segments import cumcount
from ..errors import ConfigError, DataError
from .channel_experts import ChannelExperts
from .channel_statistics import ChannelStatistics
from .corrections import BasisCorrection
from .information import GaussianInformation
from .kalman import Innovations, nis
from .model_selection import FeatureSource, Selection, joined
from .observation_models import (
    CHANNELS,
    MECHANISMS,
    PLAIN,
    Features,
    ObservationModel,
    TrainingSupport,
    canonical,
    known_steps,
    parse,
)
from .recording_effects import RecordingEffects
from .sensor_statistics import SensorStatistics
from .window_moments import MomentDiscriminant

#: Rows over which an error is steady.
STRETCH = 32
#: Pure series whose innovations are kept.
KEPT = 400
#: Parts of an observation model as stored, and its fields.
MODEL_PARTS = {
    "means": "means", "noise": "noise", "time": "autocorrelation_time", "limit": "limit",
}  # fmt: skip
#: The sensors do not determine a latent whose posterior deviation exceeds both so many times the
#: noise of the mechanisms and such a share of the latent's own deviation.
WIDE, SHARE = 3.0, 0.1
#: Stored name -> field of `BasisCorrection`.
CORRECTION_PARTS = {
    "stacking": "recombination",
    "doubt": "recombination_variance",
    "series": "series_covariance",
    "stretch": "stretch_covariance",
}
#: Fields that are plain arrays.
FIGURES = ("means", "spread", "noise", "between", "surprise", "width", "steps")
FOR_TESTS = ("pure_error", "pure_past", "gram", "group", "pure_group")


class PureRows(NamedTuple):
    """Latents of N rows of pure series, of training and held out."""

    latents: np.ndarray  # (N, d)
    series: np.ndarray  # (N,) number of the series
    regime: np.ndarray  # (N,)
    settled: np.ndarray  # (N,) whether the row has a full history

    @classmethod
    def of_series(cls, latents: np.ndarray, regime: np.ndarray, settled: np.ndarray) -> PureRows:
        """From series padded with NaN (n, T, d), the regime of each (n,), and `settled` (n, T)."""
        known = np.isfinite(latents).all(-1)
        series = np.nonzero(known)[0]
        return cls(latents[known], series, regime[series], settled[known])

    def operating_points(self) -> dict[str, Any]:
        """Mean latents of each regime, covariance within regimes and between means of series."""
        regimes, d = int(self.regime.max()) + 1, self.latents.shape[1]
        means, spread, between = np.zeros((regimes, d)), np.zeros((d, d)), np.zeros((d, d))
        for k in range(regimes):
            mine = self.settled & (self.regime == k)
            if not mine.any():
                raise DataError(f"regime number {k} has no step with a full history")
            z, series = self.latents[mine], np.unique(self.series[mine], return_inverse=True)[1]
            means[k] = z.mean(axis=0)
            within = (z - means[k]).T @ (z - means[k]) / len(z)
            count = np.bincount(series)
            if len(count) > 2:
                own = np.stack([np.bincount(series, column) for column in z.T], axis=1)
                gap = own / count[:, None] - means[k]
                between += gap.T @ gap / len(count) / regimes
            else:  # one or two series do not show how series differ
                between += within / regimes
            spread += within / regimes
        return {"means": means, "spread": spread, "between": between}


@dataclass(frozen=True, eq=False)
class PureRegimeStatistics:
    """Means, noise and observation models of the pure regimes of a trained model."""

    means: np.ndarray  # (K, d) mean latents of each regime
    spread: np.ndarray  # (d, d) covariance of the latents within a regime
    noise: np.ndarray  # (K, d, d) second moments of z - m_k(history) in regime k
    between: np.ndarray  # (d, d) covariance of the mean latents of series within a regime
    surprise: np.ndarray  # (n, T) of pure series, NaN where there is none
    width: np.ndarray  # (d,) mean square of the encoder's standard deviation
    steps: np.ndarray  # (K,) steps behind these figures
    models: dict[str, ObservationModel]
    offsets: dict[str, BasisCorrection]  # by the name of an observation model or of a combination
    selection: Selection
    support: TrainingSupport
    # innovations of some pure series and the values before them, (n, T, p), of the tested model
    pure_error: np.ndarray = field(default_factory=lambda: np.empty((0, 0, 0)))
    pure_past: np.ndarray = field(default_factory=lambda: np.empty((0, 0, 0)))
    # (K, K) mean of M' R^-1 M over pure rows
    gram: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    # codes of the groups of the series of `surprise` and of `pure_error`; empty without groups
    group: np.ndarray = field(default_factory=lambda: np.empty(0, int))
    pure_group: np.ndarray = field(default_factory=lambda: np.empty(0, int))
    seed: int = 0  # of the fit
    form_known: bool = False  # whether the form of the mechanisms was identified
    experts: ChannelExperts | None = None
    channels: ChannelStatistics | None = None
    sensors: SensorStatistics | None = None
    moments: dict[int, MomentDiscriminant] = field(default_factory=dict)  # by size of the window
    effects: RecordingEffects | None = None  # of `channels`, if recordings differ

    @classmethod
    def measure(
        cls,
        latents: np.ndarray,
        width: np.ndarray,
        predicted: np.ndarray,
        regime: np.ndarray,
        seed: int = 0,
    ) -> PureRegimeStatistics:
        """Measure the plain observation models on n pure series of known regime (n,).

        `latents` and `width` (n, T, d) are the encoder's means and standard deviations,
        `predicted` (n, T, K, d) the experts' one-step predictions; all are padded with NaN.
        """

        def features(name: str) -> Features:
            return Features(latents, predicted if name == PLAIN else None)

        selection = Selection((PLAIN,), (PLAIN, "static"), {})
        settled = np.isfinite(predicted).all((-2, -1))
        rows = PureRows.of_series(latents, regime, settled)
        return cls.of_features(features, width, regime, selection, rows, seed=seed)

    @classmethod
    def of_features(
        cls,
        features: FeatureSource,
        width: np.ndarray,
        regime: np.ndarray,
        selection: Selection,
        rows: PureRows,
        group: np.ndarray | None = None,
        seed: int = 0,
        experts: ChannelExperts | None = None,
        moments: dict[int, MomentDiscriminant] | None = None,
        effects: RecordingEffects | None = None,
    ) -> PureRegimeStatistics:
        """Measure all observation models of a selection on n held-out pure series.

        `rows` are latents of all labelled series, `group` (n,) names the group of each series.
        """
        models: dict[str, ObservationModel] = {}
        offsets: dict[str, BasisCorrection] = {}
        selected: list[GaussianInformation] = []
        for name in selection.tried:
            found = features(name)
            values, predictions, _ = found
            if name == PLAIN:
                known = known_steps(values, predictions)
                noise, steps = _noise(values, cast(np.ndarray, predictions), known, regime)
            models[name] = ObservationModel.measure(name, values, predictions, regime)
            information = models[name].information(*found)
            offsets[name] = BasisCorrection.measure(information, regime)
            if name in selection.selected:
                selected.append(information)
            if name == tested_model(selection.selected):
                tested = _for_the_tests(
                    models[name], offsets[name], information, values, cast(Any, predictions),
                    regime, group,
                )  # fmt: skip
        if len(selected) > 1:
            whole = sum(selected[1:], selected[0])
            offsets[joined(selection.selected)] = BasisCorrection.measure(whole, regime)
        return cls(
            **rows.operating_points(),
            **tested,
            noise=noise,
            steps=steps,
            width=(width[known] ** 2).mean(axis=0),
            models=models,
            offsets=offsets,
            selection=selection,
            support=TrainingSupport.of(rows.latents),
            seed=seed,
            experts=experts if CHANNELS in selection.tried else None,
            moments=moments or {},
            effects=effects,
        )

    def combination(
        self, names: tuple[str, ...] | None, *, removed: bool = False
    ) -> tuple[list[ObservationModel], BasisCorrection]:
        """Observation models by name (None: the selected ones) and their basis correction.

        Unless offsets of recordings are `removed`, they widen the intervals.
        """
        wanted = self.selection.selected if names is None else names
        if joined(wanted) not in self.offsets:
            for name in wanted:
                parse(name)  # raises if there is no such kind
            offered = ", ".join(f"'{name}'" for name in self.offsets)
            raise ConfigError(
                f"the evidence {joined(wanted)!r} was not measured when this model was fitted",
                fix=f"use one of {offered}",
            )
        correction = self.offsets[joined(wanted)]
        if self.effects is not None and CHANNELS in wanted and not removed:
            more = self.effects.shares
            correction = replace(correction, series_covariance=correction.series_covariance + more)
        return [self.models[name] for name in wanted], correction

    @cached_property
    def tested(self) -> ObservationModel:
        """The observation model whose errors the tests of a recording look at."""
        return self.models[tested_model(self.selection.selected)]

    @cached_property
    def steady_error(self) -> float:
        """Squared error, over the noise, that stays the same over stretches of pure series.

        Machines and people that differ from those of training show such errors.
        """
        error, time = self.pure_error.astype(float), self.tested.autocorrelation_time
        length = min(STRETCH, error.shape[1])
        if not error.size or length < 2:
            return 0.0
        known = np.isfinite(error).all(axis=-1, keepdims=True)
        both = np.concatenate([np.where(known, error, 0.0), known], axis=-1)
        sums = np.cumsum(np.concatenate([np.zeros_like(both[:, :1]), both], axis=1), axis=1)
        means = (sums[:, length:] - sums[:, :-length]) / length
        found = (means[..., :-1] ** 2).sum(axis=-1)[means[..., -1] > 1 - 1e-9]
        if not found.size:
            return 0.0
        by_chance = error.shape[2] * time / length
        return max(0.0, float(found.mean()) - by_chance) / time

    @property
    def precision(self) -> np.ndarray:
        """Inverse of the noise covariance of the tested observation model."""
        return np.linalg.inv(self.tested.noise)

    @cached_property
    def determined(self) -> np.ndarray:
        """Numbers of the latents that the sensors determine; all, if none is."""
        own = np.diagonal(self.spread) + self.means.var(axis=0)
        noise = np.diagonal(self.noise.mean(axis=0))
        unknown = (self.width > WIDE**2 * noise) & (self.width > SHARE**2 * own)
        return np.flatnonzero(~unknown) if not unknown.all() else np.arange(len(unknown))

    def excess(self, scale: np.ndarray) -> np.ndarray:
        """By how much the encoder's variance at rows of deviation (rows, d) exceeds the usual."""
        return np.maximum(scale**2 - self.width, 0.0)

    def arrays(self) -> dict[str, np.ndarray]:
        """All figures as arrays, for storage."""
        out = {name: getattr(self, name) for name in (*FIGURES, *FOR_TESTS)}
        out |= self.support.arrays()
        out |= {"seed": np.asarray(self.seed), "form_known": np.asarray(int(self.form_known))}
        for name, model in self.models.items():
            out |= {f"block/{name}/{key}": getattr(model, of) for key, of in MODEL_PARTS.items()}
        for name, offsets in self.offsets.items():
            parts = {f"offsets/{name}/{key}": part for key, part in CORRECTION_PARTS.items()}
            out |= {key: getattr(offsets, part) for key, part in parts.items()}
        for part in (self.experts, self.channels, self.sensors, self.effects):
            out |= {} if part is None else part.arrays()
        for window, discriminant in self.moments.items():
            out |= {f"moments/{window}/{key}": part for key, part in vars(discriminant).items()}
        out["choice"] = np.frombuffer(json.dumps(asdict(self.selection)).encode(), np.uint8)
        return {f"reference_{name}": np.asarray(value) for name, value in out.items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> PureRegimeStatistics | None:
        """From stored arrays; None if there are none."""
        stored = {
            name.removeprefix("reference_"): value
            for name, value in arrays.items()
            if name.startswith("reference_")
        }
        if not stored:
            return None
        models = {
            name: ObservationModel(
                name, part["means"], part["noise"], float(part["time"]), float(part["limit"])
            )
            for name, part in _grouped(stored, "block").items()
        }
        return cls(
            **{name: stored[name] for name in (*FIGURES, *FOR_TESTS)},
            models=models,
            offsets={
                name: BasisCorrection(
                    **{CORRECTION_PARTS[key]: part for key, part in parts.items()}
                )
                for name, parts in _grouped(stored, "offsets").items()
            },
            selection=Selection.from_dict(json.loads(stored["choice"].tobytes())),
            support=TrainingSupport.from_arrays(stored),
            seed=int(stored.get("seed", 0)),  # older models have neither
            form_known=bool(stored.get("form_known", 0)),
            experts=ChannelExperts.from_arrays(stored),
            channels=ChannelStatistics.from_arrays(stored),
            sensors=SensorStatistics.from_arrays(stored),
            moments={
                int(window): MomentDiscriminant(**parts)
                for window, parts in _grouped(stored, "moments").items()
            },
            effects=RecordingEffects.from_arrays(stored),
        )


def tested_model(selected: tuple[str, ...]) -> str:
    """The selected model that predicts, or the plainest."""
    return next((name for name in selected if parse(name)[0] in MECHANISMS), PLAIN)


def _for_the_tests(
    model: ObservationModel,
    offsets: BasisCorrection,
    information: GaussianInformation,
    values: np.ndarray,
    predictions: np.ndarray,
    regime: np.ndarray,
    group: np.ndarray | None,
) -> dict[str, Any]:
    """Errors of pure series, with which the tests compare those of a recording."""
    some = np.sort(np.argsort(cumcount(regime), kind="stable")[:KEPT])
    recombined = offsets.recombination.T @ predictions[some]
    precision = np.linalg.inv(model.noise)
    pure = Innovations.of(values[some][:, None], recombined[:, None], precision)
    corrected = information.recombine(offsets.recombination)
    codes = np.empty(0, int) if group is None else np.unique(group, return_inverse=True)[1]
    return {
        "surprise": nis(corrected, np.ones(corrected.dims.T.shape)).astype(np.float32),
        "pure_error": pure.error.astype(np.float32),
        "pure_past": pure.past.astype(np.float32),
        "gram": model.autocorrelation_time * corrected.G[..., corrected.dims > 0].mean(axis=-1),
        "group": codes,
        "pure_group": codes[some] if codes.size else codes,
    }


def _grouped(stored: dict[str, Any], kind: str) -> dict[str, dict[str, np.ndarray]]:
    """Name -> part -> array, from keys kind/name/part."""
    out: dict[str, dict[str, np.ndarray]] = {}
    for key, value in stored.items():
        head, _, rest = key.partition("/")
        if head == kind:
            name, _, part = rest.rpartition("/")
            out.setdefault(canonical(name), {})[part] = value
    return out


def _noise(
    latents: np.ndarray, predicted: np.ndarray, known: np.ndarray, regime: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Second moments (K, d, d) of the errors of each regime's own expert, and their number."""
    regimes, d = predicted.shape[2:]
    noise, steps = np.zeros((regimes, d, d)), np.zeros(regimes)
    for k in range(regimes):
        mine = known & (regime == k)[:, None]
        if not mine.any():
            raise DataError(f"regime number {k} has no step with a full history")
        error = latents[mine] - predicted[mine][:, k]
        steps[k] = len(error)
        noise[k] = error.T @ error / steps[k]
    return noise, steps
