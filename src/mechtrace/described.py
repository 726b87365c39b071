"""DescribedModel: what a fitted model says in terms of the sensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .errors import DataError, NotFitted

if TYPE_CHECKING:
    import pandas as pd

    from .data.panel import Panel
    from .stage1.fit_record import FitRecord
    from .stage1.vae import SequentialVAE
    from .stage2.contributions import Contributions
    from .stage2.description import Description
    from .stage2.pure_statistics import PureRegimeStatistics


class DescribedModel:
    """The part of `Trace` that speaks of sensors, not of latents."""

    if TYPE_CHECKING:
        model_: SequentialVAE
        record_: FitRecord
        regimes_: tuple[str, ...]
        channels_: tuple[str, ...]

        def _statistics(self, action: str) -> PureRegimeStatistics: ...
        def _as_channels(self, data: Panel | pd.DataFrame) -> Panel: ...

    def describe(self) -> Description:
        """Say what each sensor does in each regime, and what sets the regimes apart.

        Measured on the labelled recordings of the fit, in their units; a stored model knows it
        without them.

        Returns
        -------
        Description
            Prints as sentences; `to_frame()` and `to_dict()` give the figures.

        Raises
        ------
        DataError
            If the model reads pictures.
        NotFitted
            If the model was stored by a version that did not measure this.
        """
        from .stage2.description import Description
        from .stage2.difference_sentences import TimeUnit

        found, data = self._statistics("describe").sensors, self.record_.data
        if self.record_.pictures is not None or len(self.record_.row_shape) > 1:
            raise DataError(
                "a model of pictures has no sensors to describe",
                fix="give a model of recordings with channels",
            )
        if found is None:
            raise NotFitted(
                "this model does not know what its sensors do: it was stored by an earlier"
                " version, or the recordings of a regime were shorter than 8 rows",
                fix="fit it again",
            )
        unit = TimeUnit.of(data.step, found.time_kind, data.preparation.time)
        return Description(self.regimes_, self.channels_, found, unit)

    def contributions(
        self,
        panel: Panel | pd.DataFrame,
        *,
        evidence: str | Sequence[str] | None = None,
        causal: bool = False,
    ) -> Contributions | list[Contributions]:
        """Divide the log likelihood of each regime at each row among the sensors.

        Parameters
        ----------
        panel : Panel or DataFrame
            Raw recordings, as for `recover`.
        evidence : str or sequence of str, optional
            Observation models in place of those selected on held-out series.
        causal : bool
            Assign a window to its end, as `recover(causal=True)` does, and not to its centre.

        Returns
        -------
        Contributions or list of Contributions
            One for a single series, else one per series: the evidence that `recover` combines
            over time, before offsets of a recording are estimated.
        """
        from .stage2.contributions import contributions
        from .stage2.observation_models import in_steps
        from .stage2.series_batch import in_training_steps

        statistics = self._statistics("divide the evidence of")
        step = self.record_.data.step
        panel = in_training_steps(self._as_channels(panel), step)
        given: Any = [evidence] if isinstance(evidence, str) else evidence
        names = None if given is None else tuple(in_steps(name, step) for name in given)
        found = [
            contributions(
                self.model_, statistics, self.regimes_, panel[i : i + 1], names, causal=causal
            )
            for i in range(len(panel))
        ]
        return found[0] if len(found) == 1 else found
