"""One fit from panel to facts: splits, model, trainer, checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .align import Axes
from .align.aligner import find_axes
from .batches import Batches, on_device
from .blas import one_blas_thread
from .config import RunConfig
from .errors import StoreError
from .eye import Eye, learn_eye, unexplained_share
from .fit import Listener, Trainer, TrainState, resolve_device
from .health import check_model
from .memory import keeping_freed_memory
from .model import SequentialVAE
from .recover.reference import Reference
from .seen import measure_reference
from .series import Panel
from .store import Archive, read_archive, versions, write_archive
from .visible import visible_part
from .windows import CropSampler, Runs, Standardiser, pieces_of, split_runs, training_runs

#: Series per regime on which an expert is judged after training.
EVALUATION_SERIES = 64
#: Series over all regimes on which the held-out ELBO is measured, again and again.
EVALUATION_ROOM = 640
#: Of each of very many regimes, still so many.
FEWEST_SERIES = 8
#: Series per step over all regimes; a GPU is idle with fewer.
DEFAULT_BATCH = {"cpu": 40, "cuda": 320}
#: Pixels per step where the network itself reads pictures: hidden layers take many times as much.
MOST_PIXELS = {"cpu": 1 << 21, "cuda": 1 << 25}
#: Held-out runs of each regime on which the noise for stage 2 is measured, at most and at least.
REFERENCE_RUNS, FEWEST_RUNS = 400, 4
#: Numbers that may be held for it: at every step, what every expert expects of every latent, and
#: what is known of every pair of weights.
REFERENCE_SIZE = 40_000_000


@dataclass(eq=False)
class Run:
    """A prepared training run."""

    panel: Panel  # as the model sees it: of pictures, the key points
    config: RunConfig
    model: SequentialVAE
    trainer: Trainer
    runs: tuple[Runs, Runs]  # for training, and held out
    reference: Batches  # of training series, for the checks after training
    facts_of_data: dict[str, Any]
    eye: Eye | None = None  # what turned pictures into key points

    @classmethod
    def prepare(
        cls,
        panel: Panel,
        config: RunConfig,
        eye: Eye | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> Run:
        """Split the data by series, build the model and load everything that training needs.

        Of pictures, key points are learned first, unless an eye for them is given or the network
        is to read pixels itself.
        """
        lags, fit = config.model.lags, config.fit
        runs = training_runs(panel, lags)
        train, held = split_runs(runs, fit.holdout, lags, fit.seed)
        device = resolve_device(fit.device)
        facts = _facts_of_data(panel, train, held)
        if panel.is_image and config.model.encoder != "image":
            if eye is None:
                eye = learn_eye(panel, train, config, device, say)
            eye = eye.to(device)
            share = unexplained_share(eye, panel, _with_every_regime(held, train))
            say(f"key points tell {1 - share:.1%} of what varies in held-out pictures")
            panel = eye.see(panel)
            facts |= {"pictures": {"size": facts["shape"], "unexplained": share}}
            facts |= {"shape": list(panel.shape), "channels": list(panel.channels)}
        model = _new_model(panel, config, train, one_unit=eye is not None).to(device)
        length = max(lags + 1, min(fit.window, int(train.length.max())))
        regimes = len(panel.regimes)
        batch = math.ceil((fit.batch or _default_batch(panel, length, device)) / regimes)
        resident = on_device(panel, device)

        def batches(source: Runs, per_regime: int) -> Batches:
            sampler = CropSampler(source, regimes, per_regime, length, fit.seed)
            return Batches(panel, sampler, config.model.latents, device, resident)

        evaluation = min(EVALUATION_SERIES, max(FEWEST_SERIES, EVALUATION_ROOM // regimes))
        trainer = Trainer(
            model,
            batches(train, batch),
            batches(_with_every_regime(held, train), evaluation),
            train.rows,
            fit,
        )
        reference = batches(train, EVALUATION_SERIES)
        return cls(panel, config, model, trainer, (train, held), reference, facts, eye)

    def train(
        self,
        listeners: Sequence[Listener],
        checkpoint: str | Path | None = None,
        checkpoint_seconds: float = 60.0,
    ) -> None:
        """Run the loop, saving the state to `checkpoint` now and then."""
        save = None if checkpoint is None else lambda state: self._save(checkpoint, state)
        with keeping_freed_memory():
            self.trainer.run(listeners, save, checkpoint_seconds)

    def seen(self, panel: Panel) -> Panel:
        """Other recordings as the model sees them."""
        return panel if self.eye is None else self.eye.see(panel)

    def finish(self) -> dict[str, Any]:
        """Check the experts and return what is to be stored beside the weights."""
        health = check_model(self.model, self.reference, self.trainer.held_out, self.panel.regimes)
        return self.facts() | {"health": health}

    def measure_reference(self) -> Reference:
        """Means and noise of the pure regimes, on held-out series where there are any."""
        if self.eye is not None:
            self.model.visible = visible_part(self.model, self.eye.shown)
        runs, regimes = self.trainer.held_out.sampler.runs, len(self.panel.regimes)
        of_one_step = regimes * max(regimes, self.config.model.latents)
        of_one = of_one_step * max(1, int(runs.length.mean()))
        room = REFERENCE_SIZE // (regimes * of_one)
        most = min(REFERENCE_RUNS, max(FEWEST_RUNS, room))
        # recordings often lie in the order of subjects or days: the first are not like all
        order = np.random.default_rng(self.config.fit.seed).permutation(len(runs.regime))
        chosen = [order[runs.regime[order] == code][:most] for code in range(regimes)]
        runs = runs.where(np.concatenate(chosen))
        pieces = pieces_of(self.panel, runs)
        with one_blas_thread():
            return measure_reference(self.model, pieces, runs.regime)

    def find_axes(self, say: Callable[[str], None]) -> Axes:
        """Which latent coordinates are identified; without alignment none is."""
        if not self.config.fit.align:
            return Axes.unaligned(self.config.model.latents)
        regimes = tuple(self.panel.regimes)
        shown = 0 if self.eye is None else self.eye.shown
        with one_blas_thread():
            return find_axes(self.model, self.panel, *self.runs, regimes, say, shown)

    def facts(self) -> dict[str, Any]:
        """Everything about the run but the weights, ready for JSON."""
        now = self.trainer.counters
        return {
            "settings": self.config.options(),
            **self.facts_of_data,
            "training": {
                "steps": now.step,
                "best_step": now.best_step,
                "held_out_elbo": now.best_elbo if now.history else None,
                "seconds": round(now.seconds, 3),
                "stopped_early": now.step < self.config.fit.steps,
                "device": self.trainer.device.type,
                "parameters": sum(p.numel() for p in self.model.parameters()),
                "history": now.history,
            },
            "versions": versions(),
        }

    def _save(self, path: str | Path, state: TrainState) -> None:
        weights = dict(self.model.state_dict())
        tensors = {name: state.tensors.pop(f"best/{name}") for name in self.trainer.parameters}
        counters = {name: value for name, value in vars(state).items() if name != "tensors"}
        if not state.history:  # JSON has no infinity
            counters["best_elbo"] = None
        meta = self.facts() | {"counters": counters}
        groups = {"weights": weights | tensors, "training": state.tensors}
        if self.eye is not None:
            groups["eye"] = self.eye.tensors()
        write_archive(path, Archive("checkpoint", meta, groups))

    def resume_from(self, path: str | Path) -> None:
        """Continue a checkpoint; it must come from the same data and the same settings."""
        archive = read_archive(path)
        if archive.kind != "checkpoint":
            raise StoreError(
                "is a finished model, not a checkpoint",
                where=str(path),
                fix="fit again without resume, or name the checkpoint",
            )
        stored, mine = archive.meta["settings"], self.config.options()
        other = [
            f"{k} = {stored.get(k)!r}, not {v!r}" for k, v in mine.items() if stored.get(k) != v
        ]
        if archive.meta["fingerprint"] != self.facts_of_data["fingerprint"]:
            other.append("other data")
        if other:
            raise StoreError(
                f"was made with {'; '.join(other)}",
                where=str(path),
                fix="resume with the same data and settings, or fit anew",
            )
        counters = archive.meta["counters"]
        best = {f"best/{n}": archive.tensors["weights"][n] for n in self.trainer.parameters}
        if counters["best_elbo"] is None:
            counters["best_elbo"] = -math.inf
        self.trainer.restore(TrainState(**counters, tensors=archive.tensors["training"] | best))


def _default_batch(panel: Panel, length: int, device: torch.device) -> int:
    """Crops per step: fewer of them where they are made of pictures."""
    most = DEFAULT_BATCH[device.type]
    if panel.is_image:
        most = min(most, MOST_PIXELS[device.type] // (length * math.prod(panel.shape)))
    return max(1, most)


def _new_model(panel: Panel, config: RunConfig, train: Runs, one_unit: bool) -> SequentialVAE:
    """A fresh network; channels of `one_unit` keep their proportions: small ones say little."""
    with torch.random.fork_rng(devices=[]):  # leaves the caller's random numbers alone
        torch.manual_seed(config.fit.seed)
        model = SequentialVAE(config.model, len(panel.regimes), panel.shape)
    units = Standardiser.of(panel, train)
    model.centre.copy_(torch.from_numpy(units.centre))
    scale = torch.from_numpy(units.scale)
    model.scale.copy_(scale.square().mean().sqrt().expand_as(scale) if one_unit else scale)
    return model


def _with_every_regime(held: Runs, train: Runs) -> Runs:
    """Held-out runs; a regime that could spare none is judged on its training runs."""
    return held + train.where(~np.isin(train.regime, held.regime))


def _facts_of_data(panel: Panel, train: Runs, held: Runs) -> dict[str, Any]:
    def per_regime(runs: Runs) -> dict[str, int]:
        pairs = np.unique(np.stack([runs.series, runs.regime]), axis=1)
        return {name: int((pairs[1] == k).sum()) for k, name in enumerate(panel.regimes)}

    return {
        "regimes": list(panel.regimes),
        "channels": list(panel.channels),
        "shape": list(panel.shape),
        "source": panel.source,
        "fingerprint": panel.fingerprint(),
        "step": panel.usual_step if math.isfinite(panel.usual_step) else None,
        "training_rows": train.rows,
        "training_series": per_regime(train),
        "held_out_series": per_regime(held),
    }
