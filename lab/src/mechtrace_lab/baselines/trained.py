"""Methods trained by gradient descent: the trainer of mechtrace, the model of their authors."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from mechtrace._runtime import keeping_freed_memory, seeded, torch_threads
from mechtrace.config import FitConfig
from mechtrace.data import (
    CropSampler,
    Panel,
    Runs,
    Standardiser,
    find_runs,
    on_device,
    split_runs,
    training_runs,
)
from mechtrace.errors import DataError, StoreError
from mechtrace.io import Archive, read_archive, versions, write_archive
from mechtrace.metrics import mean_correlation
from mechtrace.stage1 import Batches, Learner, Listener, Trainer, resolve_device
from mechtrace.stage1 import encoding as latents

from .oracle_selection import BestMatch
from .protocol import Method, Settings, Truth

#: Held-out series on which a run is judged, for each regime.
EVALUATION_SERIES = 64


@dataclass(frozen=True)
class Recipe:
    """Optimiser settings of the authors: AdamW at a constant rate, without clipping."""

    lr: float
    batch: int  # series per step, over all regimes
    weight_decay: float = 0.0


class TrainedMethod(Method):
    """A method whose model is a `Learner`."""

    recipe: ClassVar[Recipe]

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.training_: dict[str, Any] = {}
        self._best: BestMatch | None = None
        self._learned_from: tuple[Panel, Runs] | None = None

    @abstractmethod
    def build(self, regimes: int, shape: tuple[int, ...]) -> Learner:
        """Build a model, initialised from torch's global generator."""

    @property
    def model(self) -> Learner:
        """The trained model."""
        return self._model

    def _learn(self, panel: Panel, listeners: Sequence[Listener], truth: Truth | None) -> None:
        settings = self.settings
        if panel.is_image:
            raise DataError(
                f"{self.traits.title} reads channels, not frames",
                where=panel.source,
                fix="leave this method out, or give it features of the frames",
            )
        if truth is not None and self.traits.labels_to_encode and not truth.panel.labelled:
            raise DataError(
                f"{self.traits.title} encodes only recordings whose regime is known",
                where=truth.panel.source,
                fix="give known latents of labelled recordings, or none",
            )
        self.regimes_ = panel.regimes or tuple(f"S{k}" for k in range(settings.states))
        train, held = _split(panel, settings, by_regime=self.traits.labels)
        blocks = len(panel.regimes) if self.traits.labels else 1
        device = resolve_device(settings.device)
        self._model = self._new_model(panel, train).to(device)
        length = max(settings.lags + 1, min(settings.window, int(train.length.max())))
        batch = settings.batch or self.recipe.batch
        per_block = math.ceil(batch / blocks)
        rescaling = self._model.rescaling()
        resident = on_device(panel, device, rescaling)

        def batches(source: Runs, count: int) -> Batches:
            sampler = CropSampler(source, blocks, count, length, settings.seed)
            return Batches(panel, sampler, settings.latents, device, resident, rescaling)

        evaluation = EVALUATION_SERIES * len(self.regimes_) // blocks
        shown = batches(train, per_block)
        steps = math.ceil(settings.transitions / shown.transitions(settings.lags))
        trainer = Trainer(
            self._model,
            shown,
            batches(held if len(held) else train, evaluation),
            train.rows,
            FitConfig(
                steps=steps,
                lr=self.recipe.lr * math.sqrt(batch / self.recipe.batch),
                weight_decay=self.recipe.weight_decay,
                clip=1e12,
                evaluations=settings.evaluations,
                patience=settings.evaluations + 1,
                seed=settings.seed,
            ),
            rate=lambda config, step: config.lr,
            betas=(0.9, 0.999),
        )
        watching = list(listeners)
        if truth is not None and self.traits.latents:
            self._best = BestMatch(self._model, truth, self._encode, mean_correlation)
            self._learned_from = (panel, train)
            watching.append(self._best)
        with keeping_freed_memory(), torch_threads(trainer.threads):
            trainer.run(watching)
        now = trainer.counters
        self.training_ = {
            "steps": now.step,
            "best_step": now.best_step,
            "batch": blocks * per_block,
            "seconds": round(now.seconds, 3),
            "transitions_per_second": steps * shown.transitions(settings.lags) / now.seconds,
            "history": now.history,
            "matches": self._best.scores if self._best else [],
            "device": device.type,
        }
        self._after_training(panel, train)

    def _after_training(self, panel: Panel, train: Runs) -> None:
        """Hook after training, with the selected weights."""

    def _encode(self, panel: Panel) -> list[np.ndarray]:
        return latents.encode(self._model, panel).arrays()

    def oracle_selected(self) -> Method:
        """With the weights that gave the highest MCC against the truth during training."""
        if self._best is None or self._learned_from is None or not self._best.weights:
            return self
        other = copy.copy(self)
        other._model = copy.deepcopy(self._model)
        other._model.load_state_dict(self._best.weights)
        other.training_ = self.training_ | {"best_step": self._best.step}
        other._after_training(*self._learned_from)
        return other

    def _new_model(self, panel: Panel, train: Runs) -> Learner:
        with seeded(self.settings.seed):
            model = self.build(len(self.regimes_), panel.shape)
        units = Standardiser.fit(panel, train, self.settings.seed)
        model.set_units(units.centre, units.scale)
        return model

    def save(self, path: str | Path) -> None:
        """Write one file in the format of mechtrace's models."""
        meta = {
            "method": self.traits.title,
            "settings": asdict(self.settings),
            "regimes": list(self.regimes_),
            "channels": list(self.channels_),
            "training": self.training_,
            "versions": versions(),
        }
        write_archive(path, Archive("baseline", meta, {"weights": self._model.state_dict()}))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; a file of another method is refused."""
        archive = read_archive(path)
        meta = archive.meta
        if archive.kind != "baseline" or meta["method"] != cls.traits.title:
            raise StoreError(
                f"holds {meta.get('method', archive.kind)}, not {cls.traits.title}",
                where=str(path),
                fix="load it with the method that wrote it",
            )
        method = cls(Settings(**meta["settings"]))
        method.regimes_, method.channels_ = tuple(meta["regimes"]), tuple(meta["channels"])
        method.training_ = meta["training"]
        method._model = method.build(len(method.regimes_), (len(method.channels_),))
        method._model.load_state_dict(archive.tensors["weights"])
        return method


def _split(panel: Panel, settings: Settings, by_regime: bool) -> tuple[Runs, Runs]:
    """Training and held-out runs: the same series for every method, with labels or without."""
    lags = settings.lags
    if panel.labelled:
        train, held = split_runs(training_runs(panel, lags), settings.holdout, lags, settings.seed)
        if by_regime:
            return train, held + train.where(~np.isin(train.regime, held.regime))
    runs = find_runs(panel, by_regime=False)
    runs = runs.where(runs.length > lags)
    if not len(runs):
        raise DataError(
            f"there is no stretch of more than {lags} rows without a gap",
            where=panel.source,
            fix=f"give longer recordings or use fewer lags than {lags}",
        )
    runs = Runs(runs.start, runs.length, runs.series, np.zeros_like(runs.regime))
    if not panel.labelled:
        return split_runs(runs, settings.holdout, lags, settings.seed)
    apart = np.isin(runs.series, held.series) & ~np.isin(runs.series, train.series)
    return runs.where(~apart), runs.where(apart)
