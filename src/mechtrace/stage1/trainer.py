"""The training loop of a fit: batches, schedule, evaluation, early stop, resume, CUDA graph."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from .._runtime.process import training_threads
from .._runtime.stochastic import descend, warmup_cosine
from ..config import FitConfig
from ..data.crops import CropSampler
from ..data.device import Rescale, host_rows, tensor_kind
from ..data.panel import Panel
from ..data.segments import crop_rows
from ..errors import ConfigError, Diverged
from ..io.frames import Frames
from .vae import Learner

#: Steps between two reads of the loss, which synchronise a GPU.
LEG = {"cpu": 25, "cuda": 100}
BETAS = (0.9, 0.99)
#: Pixels in one call outside of training.
PIECE_PIXELS = 1 << 23


@dataclass(frozen=True)
class Progress:
    """State of a training run, as listeners receive it."""

    step: int
    steps: int
    loss: float
    elbo: float | None  # of the held-out series, at the last evaluation
    best_elbo: float | None
    lr: float
    transitions_per_second: float
    seconds: float
    seconds_left: float
    evaluated: bool  # an evaluation has just been made


@dataclass
class TrainState:
    """Everything needed to resume: counters as numbers, the rest as tensors."""

    step: int = 0
    best_elbo: float = -math.inf
    best_step: int = 0
    stale: int = 0
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)


Listener = Callable[[Progress], None]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during training; the best weights so far are in place."""


def resolve_device(name: str) -> torch.device:
    """Return the torch device of a name; `auto` is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"there is no device {name!r}", fix="use auto, cpu or cuda") from error
    if device.type not in LEG:
        raise ConfigError(f"device {name!r} is not supported", fix="use auto, cpu or cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError("no CUDA device was found", fix="use device='cpu'")
    return device


def learning_rate(config: FitConfig, step: int) -> float:
    """Learning rate of a step: linear warm-up, then a cosine."""
    return warmup_cosine(step, config.steps, config.lr, min(config.warmup, config.steps // 10))


class Batches:
    """Fixed buffers that `load(step)` fills: observations, reparameterisation noise, padding.

    The buffers keep their addresses, as a captured CUDA graph needs; their content depends on
    the seed and the step alone. `resident` holds all observations on the device, if they fit.
    """

    def __init__(
        self, panel: Panel, sampler: CropSampler, latents: int, device: torch.device,
        resident: Tensor | None = None, rescaling: Rescale | None = None,
    ) -> None:  # fmt: skip
        self.panel, self.sampler, self.device = panel, sampler, device
        self._rescaling = rescaling
        shape = (sampler.regimes, sampler.per_regime, sampler.length)
        kind = tensor_kind(panel)
        self.x = torch.zeros(*shape, *panel.shape, dtype=kind, device=device)
        self.noise = torch.zeros(*shape, latents, device=device)
        self.valid = torch.ones(shape, dtype=torch.bool, device=device) if sampler.padded else None
        self._generator = torch.Generator(device=device)
        self._resident = resident
        self._frames = (
            panel.values.on(device)
            if resident is None and isinstance(panel.values, Frames)
            else None
        )

    def transitions(self, lags: int) -> int:
        """Return the number of steps with a history in one batch, padding included."""
        regimes, series, steps, _ = self.noise.shape
        return regimes * series * (steps - lags)

    def load(self, step: int, noise_seed: int | None = None) -> None:
        """Fill the buffers with the batch of this step."""
        start, length = self.sampler.batch(step)
        rows, valid = crop_rows(start, length, self.sampler.length)
        if self._resident is not None:
            index = torch.from_numpy(rows.ravel()).to(self.device, non_blocking=True)
            torch.index_select(self._resident, 0, index, out=self.x.flatten(0, 2))
        elif self._frames is not None:
            self._frames.take(torch.from_numpy(rows.ravel()), out=self.x.flatten(0, 2))
        else:
            block = host_rows(self.panel, rows.ravel(), self._rescaling)
            self.x.copy_(block.view(self.x.shape))
        if self.valid is not None:
            self.valid.copy_(torch.from_numpy(valid))
        seed = step if noise_seed is None else noise_seed
        self._generator.manual_seed(self.sampler.seed * 1_000_003 + seed)
        self.noise.normal_(generator=self._generator)

    def pieces(self) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
        """Iterate over x, noise and validity of the batch; pictures a few series at a time."""
        series = many = self.noise.shape[1]
        if self.panel.is_image:
            many = max(1, PIECE_PIXELS * series // math.prod(self.x.shape))
        for first in range(0, series, many):
            some = slice(first, first + many)
            valid = None if self.valid is None else self.valid[:, some]
            yield self.x[:, some], self.noise[:, some], valid


class Trainer:
    """Train a Learner; `state()` and `restore()` make the run resumable.

    `training_rows`, those of all training series, scale the shrinkage; `rate` is the learning rate
    of a step, `betas` are those of AdamW.
    """

    def __init__(
        self,
        model: Learner,
        batches: Batches,
        held_out: Batches,
        training_rows: int,
        config: FitConfig,
        rate: Callable[[FitConfig, int], float] = learning_rate,
        betas: tuple[float, float] = BETAS,
    ) -> None:
        self.model, self.batches, self.held_out = model, batches, held_out
        self.config, self.training_rows = config, training_rows
        self.device, self.rate = batches.device, rate
        self.parameters = dict(model.named_parameters())
        on_gpu = self.device.type == "cuda"
        # A tensor as learning rate can be changed under a captured graph.
        groups: list[dict[str, Any]] = [
            {"params": own, "times": times, "lr": torch.zeros((), device=self.device)}
            if on_gpu
            else {"params": own, "times": times, "lr": 0.0}
            for own, times in model.groups()
        ]
        self.optimiser = torch.optim.AdamW(
            groups, betas=betas, weight_decay=config.weight_decay, fused=True, capturable=on_gpu
        )
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=self.device)
        self.counters = TrainState()
        self.best = {name: p.detach().clone() for name, p in self.parameters.items()}
        self._graph: torch.cuda.CUDAGraph | None = None

    @property
    def threads(self) -> int:
        """CPU threads for such steps; pictures are read pixel by pixel."""
        inputs = self.batches.x if self.batches.panel.is_image else self.batches.noise[..., 0]
        return training_threads(inputs.numel() * sum(p.numel() for p in self.parameters.values()))

    # -- one step ------------------------------------------------------------------------------

    def _step_body(self) -> None:
        batch = self.batches
        terms = self.model(batch.x, batch.noise, batch.valid)
        loss = self.model.loss(terms, self.training_rows)
        descend(loss, self.optimiser, self.parameters.values(), self.config.clip)
        self.loss_sum += loss.detach()

    def step(self, step: int) -> None:
        """Take one step: load the batch, forward, backward, update."""
        self.batches.load(step)
        lr = self.rate(self.config, step)
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(group["times"] * lr)
            else:
                group["lr"] = group["times"] * lr
        if self._graph is not None:
            self._graph.replay()
        else:
            self.optimiser.zero_grad(set_to_none=True)
            self._step_body()

    def capture(self) -> None:
        """Capture forward, backward and update as one CUDA graph, if the settings allow it."""
        if self.device.type != "cuda" or not self.config.graph:
            return
        self.batches.load(0)
        before = self.state()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):  # lets the libraries choose their algorithms outside the capture
                self.optimiser.zero_grad(set_to_none=True)
                self._step_body()
        torch.cuda.current_stream().wait_stream(side)
        self.optimiser.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step_body()
        self.restore(before)
        self._graph = graph

    # -- evaluation ----------------------------------------------------------------------------

    @torch.no_grad()
    def evaluate(self) -> float:
        """Return the score of held-out series (ELBO per step), always with the same noise."""
        scores, rows = [], []
        for x, noise, valid in self.held_out.pieces():
            scores.append(float(self.model.score(self.model(x, noise, valid))))
            rows.append(noise[..., 0].numel() if valid is None else int(valid.sum()))
        if len(scores) == 1:
            return scores[0]
        return sum(s * n for s, n in zip(scores, rows, strict=True)) / sum(rows)

    def _keep_best(self, elbo: float, loss: float) -> None:
        """Keep the best weights and count the evaluations without gain."""
        now = self.counters
        now.history.append({"step": now.step, "loss": loss, "held_out_elbo": elbo})
        if elbo > now.best_elbo:
            now.best_elbo, now.best_step, now.stale = elbo, now.step, 0
            for name, p in self.parameters.items():
                self.best[name].copy_(p.detach())
        else:
            now.stale += 1

    # -- the loop ------------------------------------------------------------------------------

    def run(
        self,
        listeners: Sequence[Listener] = (),
        checkpoint: Callable[[TrainState], None] | None = None,
        checkpoint_seconds: float = 60.0,
    ) -> None:
        """Train to the end, an early stop or Ctrl-C; the best weights are in place afterwards."""
        config = self.config
        self.capture()
        now = self.counters
        self.held_out.load(0, noise_seed=-1)
        every = max(1, config.steps // config.evaluations)
        transitions = self.batches.transitions(self.model.lags)
        began, first, saved = time.monotonic() - now.seconds, now.step, time.monotonic()
        started = time.monotonic()
        elbo: float | None = now.history[-1]["held_out_elbo"] if now.history else None
        with _interrupt_between_steps() as interrupted:
            while now.step < config.steps and now.stale < config.patience:
                leg = min(LEG[self.device.type], every - now.step % every, config.steps - now.step)
                loss = self._leg(leg, interrupted)
                self._check_finite(loss)
                evaluated = now.step % every == 0 or now.step == config.steps
                if evaluated:
                    elbo = self.evaluate()
                    self._check_finite(elbo)
                    self._keep_best(elbo, loss)
                now.seconds = time.monotonic() - began
                pace = (time.monotonic() - started) / (now.step - first)
                report = Progress(
                    step=now.step,
                    steps=config.steps,
                    loss=loss,
                    elbo=elbo,
                    best_elbo=now.best_elbo if now.history else None,
                    lr=self.rate(config, now.step - 1),
                    transitions_per_second=transitions / pace,
                    seconds=now.seconds,
                    seconds_left=pace * (config.steps - now.step),
                    evaluated=evaluated,
                )
                for listener in listeners:
                    listener(report)
                stop = interrupted()
                if checkpoint and (stop or time.monotonic() - saved > checkpoint_seconds):
                    checkpoint(self.state())
                    saved = time.monotonic()
                if stop:
                    self.use_best()
                    raise Interrupted
        if checkpoint:
            checkpoint(self.state())
        self.use_best()

    def _leg(self, steps: int, interrupted: Callable[[], bool]) -> float:
        """Take some steps and return their mean loss."""
        self.loss_sum.zero_()
        first = self.counters.step
        for step in range(first, first + steps):
            self.step(step)
            self.counters.step = step + 1
            if interrupted():
                break
        return float(self.loss_sum) / (self.counters.step - first)

    def use_best(self) -> None:
        """Put the weights with the best held-out ELBO in place (if any was measured)."""
        if self.counters.history:
            with torch.no_grad():
                for name, p in self.parameters.items():
                    p.copy_(self.best[name])

    def _check_finite(self, value: float) -> None:
        if math.isfinite(value):
            return
        raise Diverged(
            f"training diverged: the loss is {value} after step {self.counters.step}",
            fix=f"lower the learning rate (lr={self.config.lr / 4:g}), and look for outliers"
            " or wrong units in the data",
        )

    # -- resume --------------------------------------------------------------------------------

    def state(self) -> TrainState:
        """Return a copy of everything that the next step depends on."""
        now = self.counters
        tensors: dict[str, Tensor] = {}
        for name, p in self.parameters.items():
            tensors[f"weights/{name}"] = p.detach().clone()
            tensors[f"best/{name}"] = self.best[name].clone()
            for key, value in self.optimiser.state.get(p, {}).items():
                tensors[f"optimiser/{key}/{name}"] = value.clone()
        return replace(now, history=[dict(record) for record in now.history], tensors=tensors)

    @torch.no_grad()
    def restore(self, state: TrainState) -> None:
        """Continue from a state; tensors keep their addresses, so a captured graph stays valid."""
        history = [dict(record) for record in state.history]
        self.counters = replace(state, history=history, tensors={})
        for name, p in self.parameters.items():
            p.copy_(state.tensors[f"weights/{name}"])
            self.best[name].copy_(state.tensors[f"best/{name}"])
            slot = self.optimiser.state[p]
            for key in ("step", "exp_avg", "exp_avg_sq"):
                stored = state.tensors.get(f"optimiser/{key}/{name}")
                if stored is None:  # a state from before the first step
                    if key in slot:
                        slot[key].zero_()
                elif key in slot:
                    slot[key].copy_(stored)
                else:
                    slot[key] = stored.clone().to(self.device)


@contextmanager
def _interrupt_between_steps() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into a flag that is read between steps; a second one acts at once."""
    pressed = False

    def on_signal(number: int, frame: object) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    previous = signal.signal(signal.SIGINT, on_signal)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, previous)
