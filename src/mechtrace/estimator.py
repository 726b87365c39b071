"""Trace: the public estimator. Settings in, a fitted model out."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ._runtime.lazy import render
from ._runtime.process import torch_threads
from .config import PAPER_RECIPE, Configurable, FitConfig, ModelConfig
from .data.panel import Panel
from .errors import DataError, StoreError
from .fitted import FittedModel

if TYPE_CHECKING:
    from .identifiability import Axes
    from .stage1.fit_record import FitRecord, GroupsRecord
    from .stage1.fit_run import FitRun
    from .stage2.pure_statistics import PureRegimeStatistics


class Trace(Configurable, FittedModel):
    """Learn one mechanism per regime, and recover their shares alpha(t) in new recordings.

    Stage 1 fits a sequential VAE with one transition expert p_k(z_t | z_{t-L:t-1}) per regime;
    stage 2 infers z_t = sum_k alpha_k(t) m_k(z_{t-L:t-1}) + noise in a state-space model.

    Parameters
    ----------
    latents : int or "auto"
        Dimensions d of the latent space; by default chosen by the data.
    lags : int or "auto"
        Steps L of history that an expert reads; by default chosen by the data.
    seed : int
        Seed of everything random.
    experts, encoder, context, hidden, layers, expert_layers, objective, beta, gamma, \
noise_floor, shrinkage
        Other settings of the model: `mechtrace.config.ModelConfig`.
    steps, batch, lr, weight_decay, warmup, clip, window, holdout, evaluations, patience, align, \
device, graph
        Settings of the training: `mechtrace.config.FitConfig`.

    Attributes
    ----------
    regimes_, channels_ : tuple of str
        Names, in the order of all arrays.
    elbo_ : float
        Held-out evidence lower bound in nats per step.
    history_ : list of dict
        Step, loss and held-out ELBO of every evaluation.
    axes_ : Axes
        Which latents are identified, and by what.
    preparation_ : Preparation
        How recordings are read and prepared; applied to new ones too.
    record_ : FitRecord
        All facts about the fit; `facts_` is its dictionary form.

    Notes
    -----
    `fit` validates the settings. New recordings are given raw, as a Panel or as a DataFrame with
    the columns of the fit: `prepared` treats them like those of the fit.

    Examples
    --------
    >>> import mechtrace as mt
    >>> mt.Trace(latents=4, seed=1)
    Trace(latents=4, seed=1)
    """

    def __init__(
        self,
        latents: int | Literal["auto"] = ModelConfig.latents,
        lags: int | Literal["auto"] = ModelConfig.lags,
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
        for name in self._defaults():
            setattr(self, name, given[name])

    @classmethod
    def paper(cls, **settings: Any) -> Trace:
        """Return a Trace with the paper's recipe: nonparametric experts, weighted objective."""
        return cls(**(PAPER_RECIPE | settings))

    def _repr_html_(self) -> str:
        return render("html", self)

    # -- learning ------------------------------------------------------------------------------

    def fit(
        self,
        panel: Panel,
        *,
        progress: bool = True,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        restart: bool = False,
        checkpoint_seconds: float = 60.0,
        log: str | Path | None = None,
        tensorboard: str | Path | None = None,
    ) -> Trace:
        """Learn the mechanisms of labelled recordings.

        Parameters
        ----------
        panel : Panel
            Recordings with regimes.
        progress : bool
            Report on standard error.
        checkpoint : path, optional
            Save the run there every `checkpoint_seconds`, and on Ctrl-C.
        resume : bool
            Continue from `checkpoint`; the result equals that of an uninterrupted run.
        restart : bool
            Replace the checkpoint of another run; without `resume` or `restart` a checkpoint that
            exists is an error.
        log, tensorboard : path, optional
            File for the progress as JSON lines; folder for TensorBoard.

        Returns
        -------
        Trace
            This object, fitted.

        Raises
        ------
        FitError
            If training diverges or an expert learns nothing.
        StoreError
            If `checkpoint` exists and is not to be continued or replaced, or is none.
        """
        from ._runtime import progress as listening
        from .stage1.checkpoint_file import check_checkpoint
        from .stage1.fit_run import FitRun
        from .stage1.trainer import Interrupted

        if resume and checkpoint is None:
            raise StoreError("there is nothing to resume from", fix="name the checkpoint")
        if checkpoint is not None:
            check_checkpoint(checkpoint, resume=resume, restart=restart)
        with listening.stages(progress):
            if resume and checkpoint is not None:
                run = FitRun.resume(panel, self.config(), checkpoint)
            else:
                run = FitRun.prepare(panel, self.config())
        try:
            with listening.listeners(progress, log, tensorboard) as listeners:
                run.train(listeners, checkpoint, checkpoint_seconds)
        except Interrupted:
            self._adopt_run(run, run.record())  # what was learned so far stays usable
            raise
        return self.conclude(run, progress=progress)

    def conclude(self, run: FitRun, *, progress: bool = True) -> Trace:
        """Take over a trained run: validate it, measure its noise, align its axes."""
        from ._runtime import progress as listening
        from .identifiability.aligner import axes_of_run
        from .identifiability.mechanism_form import MECHANISM_FORM
        from .io.typed_json import decode, plain
        from .stage1.fit_record import AxesRecord, EvidenceRecord, OriginRecord
        from .stage1.pruning import prune
        from .stage2.measure import measure_statistics

        with torch_threads(run.trainer.threads):
            run, record = prune(run, run.validated())
            statistics = measure_statistics(run)
            with listening.stages(progress):
                axes = axes_of_run(run)
        form_known = axes.weights_from == MECHANISM_FORM
        statistics = replace(statistics, form_known=form_known)
        if progress:
            listening.remark(axes.verdict)
        record = replace(
            record,
            evidence=decode(EvidenceRecord, plain(statistics.selection)),
            axes=decode(AxesRecord, plain(axes.facts())),
            origin=OriginRecord(f"{datetime.now(UTC):%Y-%m-%d %H:%M}"),
            groups=_groups(statistics),
        )
        return self._adopt_run(run, record, axes, statistics)

    def refit_experts(self, panel: Panel, *, steps: int = 500, progress: bool = True) -> Trace:
        """Train the experts a little longer in aligned coordinates; the encoder stays.

        Parameters
        ----------
        panel : Panel
            The panel of `fit`.
        steps : int
            Training steps.
        progress : bool
            Report on standard error.

        Returns
        -------
        Trace
            This object. `record_.refit` has the gain on held-out series in nats per step; without
            a gain the experts stay as they were.
        """
        from ._runtime import progress as listening
        from .data.regime_order import with_regimes
        from .identifiability.aligned_model import refit_experts
        from .io.typed_json import decode, plain
        from .stage1.fit_record import EvidenceRecord, RefitRecord
        from .stage1.fit_run import FitRun
        from .stage2.measure import measure_statistics

        self._check_fitted("refit")
        panel = self.prepared(panel)
        self.record_.check_channels(panel)
        if set(panel.regimes) == set(self.regimes_):
            panel = with_regimes(panel, self.regimes_)
        run = FitRun.prepare(panel, self.record_.settings, self.frontend_)
        if run.data.regimes != self.regimes_:
            raise DataError(
                f"the panel has the regimes {', '.join(panel.regimes)}, the model was trained on"
                f" {', '.join(self.regimes_)}",
                where=panel.source,
                fix="give the panel that the model was fitted to",
            )
        run.model = copy.deepcopy(self.model_)
        with listening.stages(progress), torch_threads(run.trainer.threads):
            gain = refit_experts(run, self.axes_, steps)
        self.record_ = replace(self.record_, refit=RefitRecord(steps, gain))
        if gain <= 0:
            return self
        with torch_threads(run.trainer.threads):
            statistics = measure_statistics(run)
        form_known = self._statistics("refit").form_known
        statistics = replace(statistics, form_known=form_known)
        evidence = decode(EvidenceRecord, plain(statistics.selection))
        return self._adopt_run(
            run,
            replace(self.record_, evidence=evidence, groups=_groups(statistics)),
            self.axes_,
            statistics,
        )

    def _adopt_run(
        self,
        run: FitRun,
        record: FitRecord,
        axes: Axes | None = None,
        statistics: PureRegimeStatistics | None = None,
    ) -> Trace:
        from .identifiability import Axes
        from .stage2.stored_model import StoredModel

        axes = axes or Axes.unaligned(run.config.model.latents)
        return self._adopt(StoredModel(run.model, record, axes, statistics, run.frontend))


def _groups(statistics: PureRegimeStatistics) -> GroupsRecord | None:
    """Record of the groups in which statistics were measured; None without groups."""
    from .stage1.fit_record import GroupsRecord

    count = len(set(statistics.group.tolist()))
    return GroupsRecord(count, statistics.effects is not None) if count else None


def load(path: str | Path) -> Trace:
    """Load a stored model, or the best weights so far of a checkpoint.

    Parameters
    ----------
    path : path
        A file of `Trace.save` or of `Trace.fit(checkpoint=...)`.

    Returns
    -------
    Trace
        The fitted model.

    Raises
    ------
    StoreError
        If the file is damaged, altered, foreign or newer than this version.
    """
    from .stage2.stored_model import StoredModel

    fitted = StoredModel.load(path)
    return Trace(**fitted.record.settings.options())._adopt(fitted)
