"""One fit from a panel to a validated model and its record: splits, checkpoints, validation."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._runtime.process import keeping_freed_memory, torch_threads
from .._runtime.stochastic import seeded
from ..config import RunConfig
from ..data.crops import CropSampler
from ..data.device import on_device
from ..data.panel import Panel
from ..data.plausible import checked_for_training
from ..data.segments import Runs, split_runs, training_runs
from ..data.standardise import Standardiser
from ..errors import DeadExpert, FitError, FitWarning, StoreError
from ..io.model_file import Archive, read_archive, versions, write_archive
from ..io.parts import Preparation
from ..io.typed_json import Mismatch, decode, usable
from ..vision.keypoint_frontend import KeypointFrontend, learn_frontend, unexplained_share
from .experts import HALF_LOG_2PI, stack_history
from .fit_record import (
    DataRecord,
    Evaluation,
    FitRecord,
    PictureRecord,
    SizesRecord,
    TrainingRecord,
    ValidationRecord,
)
from .sizes import choose_sizes
from .stored_weights import Counters, stored_state
from .trainer import Batches, Listener, Trainer, TrainState, resolve_device
from .vae import SequentialVAE

logger = logging.getLogger(__name__)

#: Series per regime on which an expert is validated after training.
EVALUATION_SERIES = 64
#: Series over all regimes on which the held-out ELBO is evaluated during training.
EVALUATION_ROOM = 640
#: Series per regime in an evaluation, at least.
FEWEST_SERIES = 8
#: Series per step over all regimes; a GPU is idle with fewer.
DEFAULT_BATCH = {"cpu": 40, "cuda": 320}
#: Pixels per step where the network itself reads pictures: hidden layers take many times as much.
MOST_PIXELS = {"cpu": 1 << 21, "cuda": 1 << 25}
#: The sensors do not determine a latent whose posterior is about as wide as its marginal.
UNUSED_SHARE = 0.9
#: Nats per step and latent that an expert may lose on its training series before it is dead.
TOLERANCE = 0.1

#: Packages whose other versions may round otherwise: a resumed fit would differ.
BIT_FOR_BIT = ("mechtrace", "torch")


@dataclass(eq=False)
class FitRun:
    """A prepared training run: data, model and trainer."""

    panel: Panel  # as the model reads it: of pictures, the key points
    config: RunConfig
    model: SequentialVAE
    trainer: Trainer
    runs: tuple[Runs, Runs]  # for training, and held out
    reference: Batches  # of training series, for the checks after training
    data: DataRecord
    frontend: KeypointFrontend | None = None
    pictures: PictureRecord | None = None
    sizes: SizesRecord | None = None  # those that the data chose

    @classmethod
    def prepare(
        cls, panel: Panel, config: RunConfig, frontend: KeypointFrontend | None = None
    ) -> FitRun:
        """Split the data by series, build the model and load everything that training needs.

        Sizes that are "auto" are chosen first. A keypoint frontend for pictures is learned, unless
        one is given or the encoder reads pixels (encoder="image").
        """
        given, panel, fit = panel, checked_for_training(panel), config.fit
        device, sizes = resolve_device(fit.device), None
        if config.model.open_sizes:
            config, sizes = choose_sizes(panel, config, device)
        lags = config.model.lags
        train, held = split_runs(training_runs(panel, lags), fit.holdout, lags, fit.seed)
        data, pictures = _data_record(given, train, held), None
        if panel.is_image and config.model.encoder != "image":
            if frontend is None:
                frontend = learn_frontend(panel, train, config, device)
            frontend = frontend.to(device)
            share = unexplained_share(frontend, panel, _with_every_regime(held, train), fit.seed)
            logger.debug(
                f"key points explain {1 - share:.1%} of the variance of held-out pictures"
            )
            panel = frontend.transform(panel)
            pictures = PictureRecord(data.shape, share)
            data = replace(data, shape=panel.shape, channels=tuple(panel.channels))
        model = _new_model(panel, config, train, one_unit=frontend is not None).to(device)
        length = max(lags + 1, min(fit.window, int(train.length.max())))
        regimes = len(panel.regimes)
        batch = math.ceil((fit.batch or _default_batch(panel, length, device)) / regimes)
        rescaling = model.rescaling()
        resident = on_device(panel, device, rescaling)

        def batches(source: Runs, per_regime: int) -> Batches:
            sampler = CropSampler(source, regimes, per_regime, length, fit.seed)
            return Batches(panel, sampler, config.model.latents, device, resident, rescaling)

        evaluation = min(EVALUATION_SERIES, max(FEWEST_SERIES, EVALUATION_ROOM // regimes))
        trainer = Trainer(
            model,
            batches(train, batch),
            batches(_with_every_regime(held, train), evaluation),
            train.rows,
            fit,
        )
        reference = batches(train, EVALUATION_SERIES)
        return cls(
            panel, config, model, trainer, (train, held), reference, data, frontend, pictures,
            sizes,
        )  # fmt: skip

    def train(
        self,
        listeners: Sequence[Listener],
        checkpoint: str | Path | None = None,
        checkpoint_seconds: float = 60.0,
    ) -> None:
        """Train, saving the state to `checkpoint` every `checkpoint_seconds`."""
        save = None if checkpoint is None else lambda state: self._save(checkpoint, state)
        with keeping_freed_memory(), torch_threads(self.trainer.threads):
            self.trainer.run(listeners, save, checkpoint_seconds)

    def as_channels(self, panel: Panel) -> Panel:
        """Return other recordings as the model reads them."""
        return panel if self.frontend is None else self.frontend.transform(panel)

    def validated(self) -> FitRecord:
        """Check the trained experts and return the record with the figures of these checks."""
        figures = validate_model(
            self.model, self.reference, self.trainer.held_out, self.panel.regimes
        )
        return replace(self.record(), validation=figures)

    def record(self) -> FitRecord:
        """Everything about the run but its tensors."""
        now = self.trainer.counters
        training = TrainingRecord(
            steps=now.step,
            best_step=now.best_step,
            held_out_elbo=now.best_elbo if now.history else None,
            seconds=round(now.seconds, 3),
            stopped_early=now.step < self.config.fit.steps,
            device=self.trainer.device.type,
            parameters=sum(p.numel() for p in self.model.parameters()),
            history=tuple(Evaluation(**entry) for entry in now.history),  # type: ignore[arg-type]
        )
        parts = (self.config, self.data, training, versions(), self.pictures)
        return FitRecord(*parts, sizes=self.sizes)

    def _save(self, path: str | Path, state: TrainState) -> None:
        weights = dict(self.model.state_dict())
        tensors = {name: state.tensors.pop(f"best/{name}") for name in self.trainer.parameters}
        counters = {name: value for name, value in vars(state).items() if name != "tensors"}
        if not state.history:  # JSON has no infinity
            counters["best_elbo"] = None
        meta = self.record().to_dict() | {"counters": counters}
        groups = {"weights": weights | tensors, "training": state.tensors}
        if self.frontend is not None:
            groups["frontend"] = self.frontend.tensors()
        write_archive(path, Archive("checkpoint", meta, groups))

    @classmethod
    def resume(cls, panel: Panel, config: RunConfig, path: str | Path) -> FitRun:
        """Prepare a run and restore a checkpoint of the same data and settings."""
        archive = read_archive(path)
        if archive.kind != "checkpoint":
            raise StoreError(
                "is a finished model, not a checkpoint",
                where=str(path),
                fix="fit again without resume, or name the checkpoint",
            )
        meta = dict(archive.meta)
        with usable(str(path)):
            counters = decode(Counters, meta.pop("counters", None), "counters")
        record = FitRecord.from_dict(meta, str(path))
        stored = record.settings.options()
        chosen = {name: stored[name] for name in config.model.open_sizes}
        if record.sizes is not None and chosen:
            config = replace(config, model=replace(config.model, **chosen))
        other = [
            f"{k} = {stored[k]!r}, not {v!r}"
            for k, v in config.options().items()
            if stored[k] != v
        ]
        if record.data.fingerprint != panel.fingerprint():
            other.append("other data")
        other += [
            f"{name} {record.versions.get(name)}, not {now}"
            for name, now in versions().items()
            if name in BIT_FOR_BIT and record.versions.get(name) != now
        ]
        if other:
            raise StoreError(
                f"was made with {'; '.join(other)}",
                where=str(path),
                fix="resume with the same data, settings and versions, or fit anew",
            )
        with usable(str(path)):
            tensors = dict(archive.tensors)
            run = cls.prepare(panel, config, stored_frontend(tensors, record))
            run.sizes = record.sizes
            run.trainer.restore(stored_state(counters, tensors, run.trainer))
        return run


def stored_frontend(
    tensors: dict[str, dict[str, Tensor]], record: FitRecord
) -> KeypointFrontend | None:
    """Take the keypoint frontend out of the tensors of a model that reads pictures."""
    if record.pictures is None:
        return None
    if "frontend" not in tensors:
        raise Mismatch("no tensors frontend")
    frontend = KeypointFrontend.from_tensors(record.pictures.size, tensors.pop("frontend"))
    if frontend.channels != record.data.channels:
        raise Mismatch("channels are not those of the frontend")
    return frontend


def _default_batch(panel: Panel, length: int, device: torch.device) -> int:
    """Crops per step: fewer of them where they are made of pictures."""
    most = DEFAULT_BATCH[device.type]
    if panel.is_image:
        most = min(most, MOST_PIXELS[device.type] // (length * math.prod(panel.shape)))
    return max(1, most)


def _new_model(panel: Panel, config: RunConfig, train: Runs, one_unit: bool) -> SequentialVAE:
    """Build the model with standardised channels, all by one scale if `one_unit`."""
    with seeded(config.fit.seed):
        model = SequentialVAE(config.model, len(panel.regimes), panel.shape)
    units = Standardiser.fit(panel, train, config.fit.seed)
    scale = units.scale
    if one_unit:
        scale = np.full_like(scale, np.sqrt(np.square(scale).mean()))
    model.set_units(units.centre, scale)
    return model


def _with_every_regime(held: Runs, train: Runs) -> Runs:
    """Held-out runs; training runs of the regimes that have none."""
    return held + train.where(~np.isin(train.regime, held.regime))


def _data_record(panel: Panel, train: Runs, held: Runs) -> DataRecord:
    def per_regime(runs: Runs) -> dict[str, int]:
        pairs = np.unique(np.stack([runs.series, runs.regime]), axis=1)
        return {name: int((pairs[1] == k).sum()) for k, name in enumerate(panel.regimes)}

    return DataRecord(
        regimes=tuple(panel.regimes),
        channels=tuple(panel.channels),
        shape=panel.shape,
        source=panel.source,
        fingerprint=panel.fingerprint(),
        step=panel.usual_step if math.isfinite(panel.usual_step) else None,
        preparation=Preparation.of(panel),
        training_rows=train.rows,
        training_series=per_regime(train),
        held_out_series=per_regime(held),
    )


@torch.no_grad()
def validate_model(
    model: SequentialVAE, train: Batches, held_out: Batches, regimes: Sequence[str]
) -> ValidationRecord:
    """Store the support of the latents in the experts, refuse dead experts, return figures."""
    known = _sample(model, train)
    if not torch.isfinite(known.z).all():
        raise FitError(
            "the encoder gives values that are not finite",
            fix="lower the learning rate and look for outliers in the data",
        )
    centre, covariance = _moments(known.z.flatten(0, 1)[None], known.weight.flatten()[None])
    model.experts.centre.copy_(centre.flatten())
    model.experts.spread.copy_(covariance[0].diagonal().sqrt())
    law = _moments(known.z, known.weight)
    gain = _gain_over_no_history(model, *law, _sample(model, held_out))
    in_training = _gain_over_no_history(model, *law, known)
    for name, new, old in zip(regimes, gain.tolist(), in_training.tolist(), strict=True):
        _check_expert(name, new, old, TOLERANCE * model.config.latents)
    return ValidationRecord(
        gain_over_no_history=dict(zip(regimes, gain.tolist(), strict=True)),
        unused_latents=int((known.width > UNUSED_SHARE * model.experts.spread).sum()),
    )


def _check_expert(regime: str, new: float, in_training: float, tolerance: float) -> None:
    """Raise if an expert fails on its training series, warn if on held-out ones."""
    fix = "check that its rows are in time order, give it more data or steps, or use other lags"
    worse = "worse than a Gaussian that ignores the past"
    if not (math.isfinite(new) and in_training > -tolerance):
        raise DeadExpert(
            f"the expert of regime {regime!r} learned nothing: it predicts its own training series"
            f" {-in_training:.2f} nats per step {worse}",
            fix=fix,
        )
    if new <= 0:
        found = (
            f"the expert of regime {regime!r} predicts held-out series {-new:.2f} nats per step"
        )
        warnings.warn(f"{found} {worse}; {fix}.", FitWarning, stacklevel=2)


class _Sample(NamedTuple):
    """Latents drawn from the posterior, as in training."""

    z: Tensor  # (K, N, d), the steps that have a history
    history: Tensor  # (K, N, L*d)
    weight: Tensor  # (K, N), zero on padding
    width: Tensor  # (d,), mean standard deviation of the posterior


def _sample(model: SequentialVAE, batches: Batches) -> _Sample:
    batches.load(0)
    encoded = [model.encode(x) for x, _, _ in batches.pieces()]
    mean, log_scale = (torch.cat(parts, dim=1) for parts in zip(*encoded, strict=True))
    width = log_scale.exp()
    z = mean + width * batches.noise
    lags = model.config.lags
    weight = z.new_ones(z.shape[:-1])
    if batches.valid is not None:
        weight = weight * batches.valid
    return _Sample(
        z[:, :, lags:].flatten(1, 2),
        stack_history(z, lags).flatten(1, 2),
        weight[:, :, lags:].flatten(1, 2),
        width.mean((0, 1, 2)),
    )


def _moments(z: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Weighted mean (K, 1, d) and covariance (K, d, d), never singular."""
    share = (weight / weight.sum(1, keepdim=True))[..., None]
    centre = (share * z).sum(1, keepdim=True)
    shifted = z - centre
    floor = 1e-8 * torch.eye(z.shape[-1], device=z.device)
    return centre, torch.bmm(shifted.mT, share * shifted) + floor


def _gain_over_no_history(
    model: SequentialVAE, centre: Tensor, covariance: Tensor, new: _Sample
) -> Tensor:
    """Mean log p_k(z | history) - log N(z; mean_k, cov_k) of each expert, in nats per step."""
    own = model.experts.log_prob(new.z, new.history)
    root = torch.linalg.cholesky(covariance)
    eps = torch.linalg.solve_triangular(root, (new.z - centre).mT, upper=False)
    blind = -0.5 * eps.square().sum(1) - new.z.shape[-1] * HALF_LOG_2PI
    blind = blind - root.diagonal(dim1=1, dim2=2).log().sum(-1)[:, None]
    return ((own - blind) * new.weight).sum(1) / new.weight.sum(1)
