"""FittedModel: what a fitted model does with recordings."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from .data.panel import Panel
from .described import DescribedModel
from .errors import DataError, MissingColumn, NotFitted

if TYPE_CHECKING:
    import pandas as pd

    from .data.plausible import PlausibleRange
    from .diagnose import Diagnosis
    from .identifiability.mechanisms import Mechanisms
    from .stage1.vae import SequentialVAE
    from .stage2.calibration import IntervalLike
    from .stage2.online import Stream
    from .stage2.pure_statistics import PureRegimeStatistics
    from .stage2.stored_model import StoredModel
    from .stage2.trajectory import Trajectory

logger = logging.getLogger(__name__)


class FittedModel(DescribedModel):
    """The half of `Trace` that needs a fit: encode, recover, diagnose, stream, save."""

    def _adopt(self, fitted: StoredModel) -> Self:
        record, data = fitted.record, fitted.record.data
        self.model_ = fitted.model.eval()
        self.record_, self.axes_ = record, fitted.axes
        self.statistics_, self.frontend_ = fitted.statistics, fitted.frontend
        self.regimes_, self.channels_ = data.regimes, data.channels
        self.preparation_ = data.preparation
        self.history_ = [dict(vars(entry)) for entry in record.training.history]
        self.elbo_ = record.training.held_out_elbo
        self.__dict__.pop("_double", None)
        return self

    @property
    def facts_(self) -> dict[str, Any]:
        """`record_` as a dictionary for JSON."""
        return self.record_.to_dict()

    @property
    def card_(self) -> str:
        """What a person should know about the model, as Markdown."""
        from .stage1.model_card import model_card

        self._check_fitted("describe")
        known, record = self.statistics_, self.record_
        if known is not None and record.validation is not None:
            unused = len(known.width) - len(known.determined)
            checks = replace(record.validation, unused_latents=unused)
            record = replace(record, validation=checks)
        return model_card(record)

    def prepared(self, data: Panel | pd.DataFrame, without: Sequence[str] = ()) -> Panel:
        """Prepare new recordings like those of the fit: the same columns, rate and trend.

        Parameters
        ----------
        data : Panel or DataFrame
            Raw recordings. What was done to a Panel before (`Panel.preparation`) is not repeated.
            A frame without the column that names the series is one recording.
        without : sequence of str
            Sensors that need not be there; they get their usual value.

        Returns
        -------
        Panel
            The prepared recordings. Cells that are no plausible measurements, such as fill
            values, are missing in it; a DataWarning names them.
        """
        from .data.plausible import implausible_as_missing, mostly_implausible, with_usual

        self._check_fitted("prepare recordings for")
        if not isinstance(data, Panel):
            from .data.read import read_frame

            how = self.preparation_
            there = [name for name in self.channels_ if name not in without]
            try:
                data = read_frame(
                    data, how.missing, there, labelled=False, model_roles=how.columns
                ).panel
            except MissingColumn as error:
                raise error.or_without(f"without=[{error.column!r}]") from error
        if without:
            data = with_usual(data, without, self.channels_, self._plausible().centre)
        if data.shape != self.shape_:  # refused where it is used
            return self.preparation_.apply(data)
        # before a trend or an average spreads such a cell over others
        centred = self.preparation_.detrend is not None
        known = implausible_as_missing(data, self._plausible(), around_medians=centred)
        found = self.preparation_.apply(known)
        if known is data or data.is_image:
            return found
        recorded = self.preparation_.apply(replace(data, values=mostly_implausible(data, known)))
        return replace(found, recorded=np.asarray(recorded.values))

    def encode(self, panel: Panel | pd.DataFrame) -> list[np.ndarray]:
        """Return the aligned latents (posterior means) of each series.

        Parameters
        ----------
        panel : Panel or DataFrame
            Raw recordings.

        Returns
        -------
        list of ndarray
            One array (T, d) in float64 per series; NaN where a row was not observed.
        """
        from .stage1 import encoding

        self._check_fitted("encode")
        found = encoding.encode(self.model_, self._as_channels(panel))
        return [self.axes_.aligned(mean) for mean in found.arrays()]

    def decode(self, latents: np.ndarray) -> np.ndarray:
        """Return the observations that latents stand for.

        Parameters
        ----------
        latents : ndarray (..., d)
            Latents as `encode` gives them.

        Returns
        -------
        ndarray (..., channels) or (..., height, width)
            Means of the observations.
        """
        import torch

        from .identifiability.aligned_model import AlignedModel

        self._check_fitted("decode with")
        given = torch.from_numpy(np.asarray(latents, float)).to(self.model_.centre)
        if given.shape[-1:] != (self.model_.config.latents,):
            raise DataError(
                f"the latents have shape {tuple(given.shape)}",
                fix=f"give {self.model_.config.latents} of them along the last axis",
            )
        with torch.no_grad():
            decoded = AlignedModel(self.model_, self.axes_).decode(given)
            decoded = decoded if self.frontend_ is None else self.frontend_.decode(decoded)
            return decoded.cpu().double().numpy()

    @property
    def weights_(self) -> Mechanisms | None:
        """W^(k) of every regime with standard errors; None if the fit was not aligned."""
        self._check_fitted("describe")
        return self.axes_.weights

    def recover(
        self,
        panel: Panel | pd.DataFrame,
        *,
        method: str = "state-space",
        causal: bool = False,
        pool: bool = False,
        simplex: bool = True,
        level: float = 0.9,
        active: Sequence[str] | Literal["auto"] | None = None,
        window: int = 5,
        smoother: str | float = "window",
        evidence: str | Sequence[str] | None = None,
        estimate_offset: bool = False,
        anchor: Sequence[IntervalLike] = (),
        progress: bool = False,
        without: Sequence[str] = (),
        **former: Any,
    ) -> Trajectory | list[Trajectory]:
        """Recover alpha(t), the share of each mechanism at each step (stage 2).

        Parameters
        ----------
        panel : Panel or DataFrame
            Raw recordings; labels are not used.
        method : {"state-space", "algorithm1"}
            State-space smoother, or the paper's Algorithm 1.
        causal : bool
            Use only the past of each step.
        pool : bool
            Treat the recordings as repeated trials that share one schedule.
        simplex : bool
            Constrain alpha to be nonnegative and sum to 1.
        level : float
            Coverage of the intervals.
        active : sequence of str or "auto", optional
            Regimes that can occur; "auto" selects them from all recordings together.
        window : int
            Half width of the moving average (Algorithm 1, which looks ahead).
        smoother : {"window", "rule", "gcv"} or float
            Smoother of Algorithm 1: moving average, or that of the paper's Theorem 3 with a
            strength by rule, by cross-validation or given.
        evidence : str or sequence of str, optional
            Observation models, as "static", "prediction(1)" or "window_moments(0.5s)", in place
            of those selected on held-out series (`statistics_.selection`).
        estimate_offset : bool
            Estimate a constant offset of each recording from the recording itself.
        anchor : sequence of (regime, start, end)
            Intervals of known regime, from which the offset is estimated.
        progress : bool
            Report on standard error, if it takes long.
        without : sequence of str
            Sensors to leave out: broken or stuck ones, or columns that the recordings lack. They
            are filled in from the others, and the intervals become as wide as that requires.
        **former
            `blocks`, `bias` and `known`: former names of `evidence`, `estimate_offset`, `anchor`.

        Returns
        -------
        Trajectory or list of Trajectory
            One for a single series or with `pool`, else one per series.
        """
        from .stage2.observation_models import in_steps
        from .stage2.options import FORMER_OPTIONS, RecoverOptions
        from .stage2.recovery import recover

        for old in former:
            if old not in FORMER_OPTIONS:
                raise TypeError(f"recover() got an unexpected keyword argument {old!r}")
            logger.info(f"recover({old}=...) is now recover({FORMER_OPTIONS[old]}=...)")
        evidence = former.get("blocks", evidence)
        statistics = self._statistics("recover with")
        panel = self._as_channels(panel, without)
        step = self.record_.data.step
        names = [evidence] if isinstance(evidence, str) else evidence
        chosen = None if names is None else tuple(in_steps(name, step) for name in names)
        options = RecoverOptions(
            method, causal, pool, simplex, level, active, window, smoother, chosen,
            former.get("bias", estimate_offset), former.get("known", anchor), tuple(without),
        )  # fmt: skip
        model = self._in_float64() if causal else self.model_
        found = recover(model, statistics, self.regimes_, panel, options, step, progress=progress)
        return found[0] if pool or len(panel) == 1 else found

    def mechanisms(
        self, panel: Panel | pd.DataFrame | None = None, *, states: int | None = None
    ) -> Mechanisms:
        """Measure the lagged effects of each regime on the latents, averaged over states.

        Parameters
        ----------
        panel : Panel or DataFrame, optional
            Recordings whose states to average over; by default states drawn around the mean
            latents of the regimes.
        states : int, optional
            Number of states; by default 1000, fewer for experts that take long.

        Returns
        -------
        Mechanisms
            Jacobians in the coordinates of `encode`; `axes_` says which of them are identified.
        """
        from .stage2.mechanisms import measure

        statistics = self._statistics("measure mechanisms of")
        panel = None if panel is None else self._as_channels(panel)
        found = measure(self._in_float64(), self.regimes_, statistics, panel, states)
        effects = self.axes_.aligned_effects(found.jacobian)
        return replace(found, jacobian=effects, latents=self.axes_.names)

    def transition_matrices(
        self, path: Trajectory, panel: Panel | pd.DataFrame | None = None
    ) -> np.ndarray:
        """Return W(t) = sum_k alpha_k(t) W^(k) of a recovered curve.

        Parameters
        ----------
        path : Trajectory
            The curve.
        panel : Panel or DataFrame, optional
            The recording (or pooled trials) that it was recovered from: W^(k) is then measured at
            the state of each step. By default W^(k) are the averages of `mechanisms()`.

        Returns
        -------
        ndarray (T, L, d, d)
            Lag 1 first, [source, target]; NaN before the first full history.
        """
        from .stage2.mechanisms import at_each_step

        if panel is None:
            return self.mechanisms().at(path.alpha)
        self._check_fitted("measure mechanisms of")
        effects = at_each_step(self._in_float64(), self._as_channels(panel), path.alpha)
        return self.axes_.aligned_effects(effects)

    def diagnose(self, path: Trajectory) -> Diagnosis:
        """Check whether a recovered curve can be trusted.

        Parameters
        ----------
        path : Trajectory
            The curve.

        Returns
        -------
        Diagnosis
            Findings with value, threshold, meaning and next step, and the verdict.
        """
        from .diagnose import diagnose

        return diagnose(path, self._statistics("diagnose with"))

    def stream(self, *, level: float = 0.9) -> Stream:
        """Recover row by row in constant memory; equals `recover(..., causal=True)`.

        Parameters
        ----------
        level : float
            Coverage of the intervals.

        Returns
        -------
        Stream
            Takes rows as they are: resample and detrend them yourself if `preparation_` says so.
        """
        import torch

        from .stage2.online import Stream

        statistics, model = self._statistics("stream with"), self._in_float64()
        if model.centre.is_cuda:  # one row at a time keeps no GPU busy
            model = copy.deepcopy(model).cpu()
        frontend = copy.deepcopy(self.frontend_)
        if frontend is not None:
            frontend = frontend.to(torch.device("cpu"))
        gap = self.preparation_.gap if self.preparation_.rate is None else None
        step = self.record_.data.step
        return Stream(
            model, statistics, self.regimes_, step, level, frontend, gap,
            self._plausible(), self.channels_,
        )  # fmt: skip

    def _in_float64(self) -> SequentialVAE:
        """Return a copy in double precision, in which one row and a batch give the same."""
        if not hasattr(self, "_double"):
            self._double = copy.deepcopy(self.model_).double()
        return self._double

    def save(self, path: str | Path) -> None:
        """Store the model in one file, without pickle; `mechtrace.load` is the inverse.

        Parameters
        ----------
        path : path
            The file; an existing one is replaced only if writing succeeds.
        """
        from .stage2.stored_model import StoredModel

        self._check_fitted("save")
        parts = (self.model_, self.record_, self.axes_, self.statistics_, self.frontend_)
        StoredModel(*parts).save(path)

    def _plausible(self) -> PlausibleRange:
        """Return the range outside of which a cell is no measurement."""
        from .data.plausible import PlausibleRange

        read_by = self.model_ if self.frontend_ is None else self.frontend_
        return PlausibleRange(*read_by.units())

    def _check_fitted(self, action: str) -> None:
        if not hasattr(self, "model_"):
            raise NotFitted(f"there is no trained model to {action}", fix="call fit first")

    def _statistics(self, action: str) -> PureRegimeStatistics:
        """Return the statistics of the pure regimes, which an unfinished model lacks."""
        self._check_fitted(action)
        if self.statistics_ is None:
            raise NotFitted(
                "this model was stored before its training was finished, or by a version without"
                " stage 2",
                fix="finish the fit (--resume) or fit it again",
            )
        return self.statistics_

    @property
    def shape_(self) -> tuple[int, ...]:
        """Shape of one row of the recordings: (channels,) or (height, width)."""
        self._check_fitted("describe")
        return self.record_.row_shape

    def _as_channels(self, data: Panel | pd.DataFrame, without: Sequence[str] = ()) -> Panel:
        """Return recordings as the model reads them: prepared, pictures as key points."""
        panel = self.prepared(data, without)
        self.record_.check_channels(panel)
        return panel if self.frontend_ is None else self.frontend_.transform(panel)
