"""Trace: the public face. Settings in, a trained model out."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .config import PAPER_RECIPE, FitConfig, ModelConfig, RunConfig
from .errors import DataError, NotFitted, StoreError
from .series import Panel

if TYPE_CHECKING:
    from .align import Axes
    from .diagnose import Diagnosis
    from .eye import Eye
    from .model import SequentialVAE
    from .progress import Listener
    from .recover.known import Known
    from .recover.network import Mechanisms
    from .recover.reference import Reference
    from .recover.trajectory import Trajectory
    from .store import Archive
    from .stream import Stream
    from .training import Run


class Trace:
    """Learns one mechanism per regime from labelled recordings.

    Every argument is a setting of `mechtrace.config`; they are validated by `fit`. After `fit`,
    `regimes_` and `channels_` hold the names, `elbo_` the held-out evidence lower bound per step
    in nats, `history_` the evaluations, `axes_` which latents are identified and by what, and
    `card_` what a person should know about the model.
    """

    def __init__(
        self,
        latents: int = ModelConfig.latents,
        lags: int = ModelConfig.lags,
        *,
        seed: int = FitConfig.seed,
        experts: str = ModelConfig.experts,
        encoder: str = ModelConfig.encoder,
        context: int | None = ModelConfig.context,
        hidden: int = ModelConfig.hidden,
        layers: int = ModelConfig.layers,
        expert_layers: int | None = ModelConfig.expert_layers,
        objective: str = ModelConfig.objective,
        beta: float = ModelConfig.beta,
        gamma: float = ModelConfig.gamma,
        noise_floor: float = ModelConfig.noise_floor,
        shrinkage: float = ModelConfig.shrinkage,
        steps: int = FitConfig.steps,
        batch: int | None = FitConfig.batch,
        lr: float = FitConfig.lr,
        weight_decay: float = FitConfig.weight_decay,
        warmup: int = FitConfig.warmup,
        clip: float = FitConfig.clip,
        window: int = FitConfig.window,
        holdout: float = FitConfig.holdout,
        evaluations: int = FitConfig.evaluations,
        patience: int = FitConfig.patience,
        align: bool = FitConfig.align,
        device: str = FitConfig.device,
        graph: bool = FitConfig.graph,
    ) -> None:
        given = locals()
        for name in self._setting_names():
            setattr(self, name, given[name])

    @classmethod
    def paper(cls, **settings: Any) -> Trace:
        """Settings of the paper's own recipe: nonparametric experts, weighted objective."""
        return cls(**(PAPER_RECIPE | settings))

    # -- settings ------------------------------------------------------------------------------

    @classmethod
    def _setting_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All settings, as scikit-learn asks for them."""
        return {name: getattr(self, name) for name in self._setting_names()}

    def set_params(self, **settings: Any) -> Trace:
        """Change settings."""
        known = self._setting_names()
        for name, value in settings.items():
            if name not in known:
                RunConfig.from_options(**{name: value})  # raises, with the list of known names
            setattr(self, name, value)
        return self

    def config(self) -> RunConfig:
        """The settings, validated."""
        return RunConfig.from_options(**self.get_params())

    def __repr__(self) -> str:
        defaults = {
            name: parameter.default
            for name, parameter in inspect.signature(type(self).__init__).parameters.items()
        }
        changed = {k: v for k, v in self.get_params().items() if v != defaults[k]}
        return f"Trace({', '.join(f'{k}={v!r}' for k, v in changed.items())})"

    def _repr_html_(self) -> str:
        from .notebook import trace_html

        return trace_html(self)

    # -- learning ------------------------------------------------------------------------------

    def fit(
        self,
        panel: Panel,
        *,
        progress: bool = True,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        checkpoint_seconds: float = 60.0,
        log: str | Path | None = None,
        tensorboard: str | Path | None = None,
    ) -> Trace:
        """Learn the mechanisms of a labelled panel.

        With `checkpoint` the run is saved there now and then, and on Ctrl-C; with `resume` it
        continues from there, to the same result as a run that was never interrupted.
        """
        from . import progress as listening
        from .fit import Interrupted
        from .store import read_archive
        from .training import Run

        if resume and checkpoint is None:
            raise StoreError("there is nothing to resume from", fix="name the checkpoint")
        eye = _stored_eye(read_archive(checkpoint)) if resume and checkpoint else None
        run = Run.prepare(panel, self.config(), eye, listening.remarks(progress))
        if resume and checkpoint:
            run.resume_from(checkpoint)
        with ExitStack() as stack:
            listeners: list[Listener] = []
            if progress:
                listeners.append(stack.enter_context(listening.reporter()))
            if log is not None:
                listeners.append(stack.enter_context(listening.JsonLines(log)))
            if tensorboard is not None:
                listeners.append(stack.enter_context(listening.TensorBoard(tensorboard)))
            try:
                run.train(listeners, checkpoint, checkpoint_seconds)
            except Interrupted:
                self._adopt(
                    run.model, run.facts(), None, eye=run.eye
                )  # what was learned so far stays usable
                raise
        return self.conclude(run, progress=progress)

    def conclude(self, run: Run, *, progress: bool = True) -> Trace:
        """Take over the model of a trained run: check it, measure its noise, find its axes."""
        from . import progress as listening

        facts, reference = run.finish(), run.measure_reference()
        axes = run.find_axes(listening.remarks(progress))
        if progress:
            listening.remark(axes.verdict)
        facts |= {"evidence": asdict(reference.choice), "axes": axes.facts()}
        self._adopt(run.model, facts, reference, axes, run.eye)
        return self

    def refit_experts(self, panel: Panel, *, steps: int = 500, progress: bool = True) -> Trace:
        """Train the experts a little longer in aligned coordinates; the encoder stays.

        Give the panel of `fit`. If held-out series do not gain, nothing changes;
        `facts_["refit"]` says how many nats per step they did.
        """
        from . import progress as listening
        from .align.refit import refit_experts
        from .training import Run

        self._check_fitted("refit")
        self._check_channels(panel)
        run = Run.prepare(panel, self.config(), self.eye_)
        if run.facts_of_data["regimes"] != list(self.regimes_):
            raise DataError(
                f"the panel has the regimes {', '.join(panel.regimes)}, the model was trained on"
                f" {', '.join(self.regimes_)}",
                where=panel.source,
                fix="give the panel that the model was fitted to",
            )
        run.model = copy.deepcopy(self.model_)
        gain = refit_experts(run, self.axes_, steps, listening.remarks(progress))
        self.facts_["refit"] = {"steps": steps, "gain": gain}
        if gain > 0:
            reference = run.measure_reference()
            facts = self.facts_ | {"evidence": asdict(reference.choice)}
            self._adopt(run.model, facts, reference, self.axes_, self.eye_)
        return self

    def _adopt(
        self,
        model: SequentialVAE,
        facts: dict[str, Any],
        reference: Reference | None,
        axes: Axes | None = None,
        eye: Eye | None = None,
    ) -> None:
        from .align import Axes
        from .visible import visible_part

        model.eval()
        if eye is not None:
            model.visible = visible_part(model, eye.shown)
        self.model_ = model
        self.eye_ = eye
        self.axes_ = Axes.unaligned(model.config.latents) if axes is None else axes
        self.__dict__.pop("_double", None)
        self.reference_ = reference
        self.facts_ = facts
        self.regimes_: tuple[str, ...] = tuple(facts["regimes"])
        self.channels_: tuple[str, ...] = tuple(facts["channels"])
        self.history_: list[dict[str, float]] = facts["training"]["history"]
        self.elbo_: float = facts["training"]["held_out_elbo"]

    @property
    def card_(self) -> str:
        """What a person should know about the model, as Markdown."""
        from .card import model_card

        self._check_fitted("describe")
        return model_card(self.facts_)

    # -- using ---------------------------------------------------------------------------------

    def encode(self, panel: Panel) -> list[np.ndarray]:
        """Latents of each series, (T, d) in float64; NaN where a row was not observed."""
        from . import latents

        self._check_fitted("encode")
        found = latents.encode(self.model_, self._seen(panel))
        return [self.axes_.aligned(mean) for mean in found.arrays()]

    def decode(self, latents: np.ndarray) -> np.ndarray:
        """Observations `(..., *shape)` for latents `(..., d)` as `encode` gives them."""
        import torch

        from .align.view import AlignedModel

        self._check_fitted("decode with")
        given = torch.from_numpy(np.asarray(latents, float)).to(self.model_.centre)
        if given.shape[-1:] != (self.model_.config.latents,):
            raise DataError(
                f"the latents have shape {tuple(given.shape)}",
                fix=f"give {self.model_.config.latents} of them along the last axis",
            )
        with torch.no_grad():
            shown = AlignedModel(self.model_, self.axes_).decode(given)
            shown = shown if self.eye_ is None else self.eye_.draw(shown)
            return shown.cpu().double().numpy()

    @property
    def weights_(self) -> Mechanisms | None:
        """W^(k) of every regime with standard errors, as the training series show it.

        The matrices of the mechanism form where that form was found (`axes_.weights_from`), else
        average effects. None if the fit was not aligned.
        """
        self._check_fitted("describe")
        return self.axes_.weights

    def recover(
        self,
        panel: Panel,
        *,
        method: str = "state-space",
        causal: bool = False,
        pool: bool = False,
        simplex: bool = True,
        level: float = 0.9,
        active: Sequence[str] | Literal["auto"] | None = None,
        window: int = 5,
        smoother: str | float = "window",
        blocks: str | Sequence[str] | None = None,
        bias: bool = False,
        known: Sequence[Known] = (),
    ) -> Trajectory | list[Trajectory]:
        """How much of each mechanism is at work at each step: stage 2.

        A Trajectory for a panel of one series or with `pool` (repeated trials that share one
        schedule), else one per series. `causal` uses only the past of each step. `active` names
        the regimes that can occur, or is "auto": those that the recordings together ask for (for
        models of many more regimes than take part; it needs a pool, or many recordings).
        `window` is the half width of the paper's moving average (method="algorithm1" only, which
        looks ahead); `smoother` replaces it by that of the paper's Theorem 3: "rule", "gcv" or its
        strength.

        `blocks` names the evidence to use, as "static" or "conditional(1)" or, with a time in
        place of a number of steps, "moments(0.5s)", instead of what did best on left-out series
        (`reference_.choice`). If a recording may be off by something constant (another subject,
        another day), `known` names stretches whose regime is known, as ("walk", 0.0, 2.0) from
        and to a time, and `bias` does without.
        """
        from .recover.blocks import in_steps
        from .request import Request
        from .stage2 import recover

        reference = self._reference("recover with")
        panel = self._seen(panel)
        step = self.facts_.get("step")
        names = None if blocks is None else [blocks] if isinstance(blocks, str) else blocks
        chosen = None if names is None else tuple(in_steps(name, step) for name in names)
        request = Request(
            method, causal, pool, simplex, level, active, window, smoother, chosen, bias, known
        )
        model = self._in_float64() if causal else self.model_
        found = recover(model, reference, self.regimes_, panel, request, step)
        return found[0] if pool or len(panel) == 1 else found

    def mechanisms(self, panel: Panel | None = None, *, states: int | None = None) -> Mechanisms:
        """The lagged effects of each regime on the latents, and through them W(t).

        Averaged over up to `states` histories of the panel, the same for all regimes, best of
        recordings like those in question; without a panel over states drawn around the mean
        latents of the regimes. By default 1000, fewer for experts that take long. The latents
        are those of `encode`; `axes_` says which of them are identified.
        """
        from .mechanisms import measure

        reference = self._reference("measure mechanisms of")
        panel = None if panel is None else self._seen(panel)
        found = measure(self._in_float64(), self.regimes_, reference, panel, states)
        effects = self.axes_.aligned_effects(found.jacobian)
        return replace(found, jacobian=effects, latents=self.axes_.names)

    def transition_matrices(self, path: Trajectory, panel: Panel | None = None) -> np.ndarray:
        """W(t) of a recovered curve, (T, L, d, d), lag 1 first, [source, target].

        With the panel that the curve was recovered from (one recording, or the pooled trials) each
        step has the effects at its own state, NaN before the first full history (nonparametric
        experts take half a second for each); without, it has the average ones of `mechanisms()`.
        """
        from .mechanisms import at_each_step

        if panel is None:
            return self.mechanisms().at(path.alpha)
        self._check_fitted("measure mechanisms of")
        effects = at_each_step(self._in_float64(), self._seen(panel), path.alpha)
        return self.axes_.aligned_effects(effects)

    def diagnose(self, path: Trajectory) -> Diagnosis:
        """Can this curve be trusted? Findings with value, threshold, meaning and next step."""
        from .diagnose import diagnose

        return diagnose(path, self._reference("diagnose with"))

    def stream(self, *, level: float = 0.9) -> Stream:
        """Recover row by row in constant memory; equals recover(..., causal=True)."""
        import torch

        from .stream import Stream

        reference = self._reference("stream with")
        model = self._in_float64()
        if model.centre.is_cuda:  # one row at a time keeps no GPU busy
            model = copy.deepcopy(model).cpu()
        eye = None if self.eye_ is None else copy.deepcopy(self.eye_).to(torch.device("cpu"))
        return Stream(model, reference, self.regimes_, self.facts_.get("step"), level, eye)

    def _in_float64(self) -> SequentialVAE:
        """A copy in double precision: one row alone then gives what a batch of rows gives."""
        if not hasattr(self, "_double"):
            self._double = copy.deepcopy(self.model_).double()
        return self._double

    def save(self, path: str | Path) -> None:
        """Store the model in one file; `mechtrace.load` brings it back."""
        from .store import Archive, write_archive

        self._check_fitted("save")
        weights = {"weights": dict(self.model_.state_dict())}
        if self.eye_ is not None:
            weights["eye"] = self.eye_.tensors()
        arrays = self.axes_.arrays()
        if self.reference_ is not None:
            arrays |= self.reference_.arrays()
        write_archive(path, Archive("model", self.facts_, weights, arrays, self.card_))

    def _check_fitted(self, action: str) -> None:
        if not hasattr(self, "model_"):
            raise NotFitted(f"there is no trained model to {action}", fix="call fit first")

    def _reference(self, action: str) -> Reference:
        """What stage 2 knows of the pure regimes; an unfinished model has none."""
        self._check_fitted(action)
        if self.reference_ is None:
            raise NotFitted(
                "this model was stored before its training was finished, or by a version without"
                " stage 2",
                fix="finish the fit (--resume) or fit it again",
            )
        return self.reference_

    @property
    def shape_(self) -> tuple[int, ...]:
        """Shape of one row of the recordings: (channels,) or (height, width)."""
        self._check_fitted("describe")
        return self.model_.shape if self.eye_ is None else self.eye_.size

    def _seen(self, panel: Panel) -> Panel:
        """Recordings as the model sees them: of pictures, the key points."""
        self._check_channels(panel)
        return panel if self.eye_ is None else self.eye_.see(panel)

    def _check_channels(self, panel: Panel) -> None:
        if panel.shape != self.shape_:
            raise DataError(
                f"the panel has rows of shape {panel.shape}, the model was trained on"
                f" {self.shape_}",
                where=panel.source,
                fix="give the same channels as in training",
            )
        if not panel.is_image and tuple(panel.channels) != self.channels_:
            missing = [name for name in self.channels_ if name not in panel.channels]
            detail = f"lacks {missing}" if missing else "has the channels in another order"
            raise DataError(
                f"the panel {detail}; the model was trained on {list(self.channels_)}",
                where=panel.source,
                fix="name the channels in that order (channels=[...])",
            )


def load(path: str | Path) -> Trace:
    """Bring back a stored model (or the best weights so far of a checkpoint)."""
    from .align import Axes
    from .model import SequentialVAE
    from .recover.reference import Reference
    from .store import read_archive

    archive = read_archive(path)
    facts = archive.meta
    try:
        config = RunConfig.from_options(**facts["settings"])
        model = SequentialVAE(config.model, len(facts["regimes"]), tuple(facts["shape"]))
        if facts.get("refit", {}).get("gain", 0) > 0:
            from .align.refit import empty_aligned_experts

            model.experts = empty_aligned_experts(model)
        model.load_state_dict(archive.tensors["weights"])
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise StoreError(
            f"does not hold a usable model ({str(error).splitlines()[0]})",
            where=str(path),
            fix="save the model again",
        ) from error
    trace = Trace(**facts["settings"])
    axes = None
    if "axes" in facts and "axes/matrix" in archive.arrays:
        axes = Axes.restored(facts["axes"], archive.arrays, tuple(facts["regimes"]))
    eye = _stored_eye(archive)
    trace._adopt(model, facts, Reference.from_arrays(archive.arrays), axes, eye)
    return trace


def _stored_eye(archive: Archive) -> Eye | None:
    """What turns pictures into key points, if the stored model has it."""
    from .eye import Eye

    if "eye" not in archive.tensors:
        return None
    return Eye.from_tensors(archive.meta["pictures"]["size"], archive.tensors["eye"])
