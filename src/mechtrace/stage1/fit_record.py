"""FitRecord: everything about a fit but its arrays, typed and ready for JSON.

`FitRecord.from_dict` reads the current schema only; `io.model_file.read_archive` upgrades files of
older ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from ..config import RunConfig
from ..data.panel import Panel
from ..errors import DataError, MechtraceError
from ..io.parts import Preparation
from ..io.typed_json import (
    Count,
    Mismatch,
    NotNegative,
    Positive,
    Probability,
    Size,
    decode,
    decode_fields,
    plain,
    usable,
)


@dataclass(frozen=True)
class DataRecord:
    """The labelled recordings of a fit, as the model reads them."""

    regimes: tuple[str, ...]
    channels: tuple[str, ...]
    shape: tuple[Size, ...]  # of a row
    source: str
    fingerprint: str
    step: Positive | None  # usual step in time
    preparation: Preparation
    training_rows: Count
    training_series: dict[str, Count]  # of each regime
    held_out_series: dict[str, Count]


@dataclass(frozen=True)
class PictureRecord:
    """Pictures, if the model reads them through a keypoint frontend."""

    size: tuple[Size, ...]
    unexplained: float  # share of the variance of held-out pictures


@dataclass(frozen=True)
class Evaluation:
    """One evaluation on held-out series."""

    step: Count
    loss: float
    held_out_elbo: float


@dataclass(frozen=True)
class TrainingRecord:
    """The course of the training."""

    steps: Count
    best_step: Count
    held_out_elbo: float | None  # nats per step, at the best step
    seconds: NotNegative
    stopped_early: bool
    device: str
    parameters: Count
    history: tuple[Evaluation, ...]


@dataclass(frozen=True)
class ValidationRecord:
    """Figures of the checks after training."""

    gain_over_no_history: dict[str, float]  # nats per step, of each regime
    unused_latents: Count


@dataclass(frozen=True)
class EvidenceRecord:
    """The observation models that stage 2 uses, and the errors of those that were tried."""

    selected: tuple[str, ...]
    tried: tuple[str, ...]
    errors: dict[str, NotNegative]


@dataclass(frozen=True)
class GroupsRecord:
    """Groups in which it was measured what is normal, and whether recordings have offsets."""

    count: Count
    offsets: bool


@dataclass(frozen=True)
class AxisRecord:
    """The verdict on one latent."""

    name: str
    by: tuple[str, ...]
    subspace: tuple[str, ...]
    rotation_loss: float
    p_value: Probability
    used: bool


@dataclass(frozen=True)
class AxisEvidenceRecord:
    """One kind of evidence about the axes."""

    kind: str
    identified: Count
    rotation_loss: float
    p_value: Probability
    facts: dict[str, float]


@dataclass(frozen=True)
class AxesRecord:
    """Which latents are identified, and by what."""

    verdict: str
    axes: tuple[AxisRecord, ...]
    evidence: tuple[AxisEvidenceRecord, ...]
    curvature: float
    weights_from: str
    held_out: bool


@dataclass(frozen=True)
class RefitRecord:
    """A refit of the experts in aligned coordinates."""

    steps: Count
    gain: NotNegative  # nats per step on held-out series; 0: the experts were kept


@dataclass(frozen=True)
class OriginRecord:
    """When a fit ended, and the command that ran it."""

    finished: str  # UTC, as 2026-01-31 12:30
    command: str | None = None  # None: it was called from Python


@dataclass(frozen=True)
class SizeChoice:
    """One size that the data chose, and what was measured of each candidate."""

    chosen: Count
    measured: dict[str, NotNegative]  # by candidate; at most `limit` is good
    limit: NotNegative
    close: tuple[Count, ...]  # other candidates near the limit


@dataclass(frozen=True)
class SizesRecord:
    """The sizes that the data chose; None for those that were given, or fixed for pictures.

    Of `lags`, the loss of held-out prediction against the best, in nats per channel and step. Of
    `latents`, the posterior deviation of the last direction as a share of its marginal one.
    """

    latents: SizeChoice | None = None
    lags: SizeChoice | None = None
    pruned: Count = 0  # latents that carried nothing, and were taken out after training


@dataclass(frozen=True)
class FitRecord:
    """All facts about a fit; sections that are None were not reached or do not apply."""

    settings: RunConfig
    data: DataRecord
    training: TrainingRecord
    versions: dict[str, str]
    pictures: PictureRecord | None = None
    validation: ValidationRecord | None = None
    evidence: EvidenceRecord | None = None
    axes: AxesRecord | None = None
    refit: RefitRecord | None = None
    origin: OriginRecord | None = None  # files of versions before it have none
    sizes: SizesRecord | None = None  # those that the data chose
    groups: GroupsRecord | None = None

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of a row of the recordings: (channels,) or (height, width)."""
        return self.data.shape if self.pictures is None else self.pictures.size

    def to_dict(self) -> dict[str, Any]:
        """One dictionary for JSON; the fields of `data` lie at its top."""
        out = {"settings": self.settings.options(), **plain(self.data)}
        for section, name in _SECTIONS.items():
            value = getattr(self, name)
            if value is not None:
                out[section] = plain(value)
        return out

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], where: str = "") -> FitRecord:
        """Invert `to_dict`; an unknown, missing or wrongly typed field is a StoreError."""
        rest, top = dict(stored), {f.name for f in fields(DataRecord)}
        with usable(where):
            settings = _settings(rest.pop("settings", None))
            data = decode(DataRecord, {k: rest.pop(k) for k in top & rest.keys()})
            named = {_SECTIONS.get(section, section): value for section, value in rest.items()}
            sections = decode_fields(cls, named, defaults=True, without=("settings", "data"))
            record = cls(settings, data, **sections)
            for name, agrees in _agreements(record):
                if not agrees:
                    raise Mismatch(f"{name} does not agree with the other fields")
        return record

    def check_channels(self, panel: Panel) -> None:
        """Refuse a panel whose rows are not like those of the fit."""
        if panel.shape != self.row_shape:
            raise DataError(
                f"the panel has rows of shape {panel.shape}, the model was trained on"
                f" {self.row_shape}",
                where=panel.source,
                fix="give the same channels as in training",
            )
        names = self.data.channels
        if not panel.is_image and tuple(panel.channels) != names:
            missing = [name for name in names if name not in panel.channels]
            detail = f"lacks {missing}" if missing else "has the channels in another order"
            raise DataError(
                f"the panel {detail}; the model was trained on {list(names)}",
                where=panel.source,
                fix="name the channels in that order (channels=[...])",
            )


#: Names of the sections in files and JSON, in their order there.
_SECTIONS = {
    "pictures": "pictures",
    "training": "training",
    "versions": "versions",
    "health": "validation",
    "evidence": "evidence",
    "axes": "axes",
    "refit": "refit",
    "origin": "origin",
    "sizes": "sizes",
    "groups": "groups",
}


def _settings(stored: Any) -> RunConfig:
    known = RunConfig().options()
    if not isinstance(stored, Mapping):
        raise Mismatch("no field settings")
    for key in known:
        if key not in stored:
            raise Mismatch(f"no field settings.{key}")
    try:
        settings = RunConfig.from_options(**stored)
    except (MechtraceError, TypeError) as error:
        raise Mismatch(f"settings: {str(error)[:200]}") from error
    if settings.model.open_sizes:
        raise Mismatch("settings: sizes are not chosen")
    return settings


def _agreements(record: FitRecord) -> Iterator[tuple[str, bool]]:
    """Fields that depend on others, each with whether it agrees with them."""
    data, training, d = record.data, record.training, record.settings.model.latents
    how, regimes = data.preparation, set(data.regimes)
    yield "regimes", len(data.regimes) == len(regimes) > 0 and "" not in regimes
    yield "shape", len(data.shape) in (1, 2)
    yield "channels", len(data.channels) == len(set(data.channels)) > 0
    yield "channels", len(data.shape) == 2 or len(data.channels) == data.shape[0]
    yield "training_series", data.training_series.keys() == regimes
    yield "held_out_series", data.held_out_series.keys() == regimes
    yield "preparation.missing", how.missing in (None, "error", "gap", "interpolate")
    for name in ("gap", "step", "rate"):
        value = getattr(how, name)
        yield f"preparation.{name}", value is None or value > 0
    if how.rate is not None and data.step is not None:
        yield "preparation.rate", 0.5 < how.rate * data.step < 2
    yield "training.best_step", training.best_step <= training.steps
    if record.pictures is not None:
        yield "pictures.size", len(record.pictures.size) == 2 and len(data.shape) == 1
    if record.validation is not None:
        yield (
            "health.gain_over_no_history",
            (record.validation.gain_over_no_history.keys() == regimes),
        )
        yield "health.unused_latents", record.validation.unused_latents <= d
    if record.axes is not None:
        names = [axis.name for axis in record.axes.axes]
        yield "axes.axes", len(names) == len(set(names)) == d
        for number, axis in enumerate(record.axes.axes):
            yield f"axes.axes[{number}].subspace", set(axis.subspace) <= set(names)
        yield "axes.evidence", all(found.identified <= d for found in record.axes.evidence)
