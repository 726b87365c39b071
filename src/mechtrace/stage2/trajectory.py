"""Trajectory: alpha(t) with its intervals, in the user's own time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import MissingDependency
from .events import Event, find_events, shown_time
from .innovations import Observed

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from .known import Known

#: No history yet; no evidence; explained by no mixture; blocks of evidence contradict each other.
FLAGS = ("warm-up", "missing", "unexplained", "disagree")
#: A regime with at least this share on average is said to be at work throughout.
CLEAR = 0.75


@dataclass(frozen=True, eq=False)
class Curve:
    """alpha(t) by one block of evidence alone, (T, K) each."""

    alpha: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


@dataclass(frozen=True, eq=False)
class Trajectory:
    """How much of each mechanism is at work at each step of one recording (or of a pool).

    `alpha`, `lower` and `upper` are (T, K), in the order of `regimes`; `time`, `residual` (1 is
    what pure regimes show) and `flag` ("" or one of FLAGS) are (T,). `blocks` has the curve of
    each block of evidence where there are several. `information`, `surprise`, `latent_mean` and
    `observed` are for the diagnosis.
    """

    name: str
    time: np.ndarray  # (T,)
    regimes: tuple[str, ...]
    alpha: np.ndarray = field(repr=False)  # (T, K)
    lower: np.ndarray = field(repr=False)  # (T, K)
    upper: np.ndarray = field(repr=False)  # (T, K)
    residual: np.ndarray = field(repr=False)  # (T,): 1 is what pure regimes show
    flag: np.ndarray = field(repr=False)  # (T,) of str: "" or one of FLAGS
    surprise: np.ndarray = field(
        repr=False
    )  # (T,) squared causal prediction error, in units of its variance
    information: np.ndarray = field(repr=False)  # (K, K) sum over the steps of M' R^-1 M
    latent_mean: np.ndarray = field(repr=False)  # (d,)
    method: str = "state-space"
    causal: bool = False
    level: float = 0.9
    drift: float = float("nan")
    trials: int = 1
    calibration: str = ""  # "two-point" or "matrix" where known stretches have corrected it
    blocks: dict[str, Curve] = field(default_factory=dict, repr=False)  # if there are several
    observed: Observed | None = field(repr=False, default=None)  # for the diagnosis

    def __len__(self) -> int:
        return len(self.time)

    def to_frame(self) -> pd.DataFrame:
        """time, one column per regime, <regime>_lower and _upper, residual, flag."""
        import pandas as pd

        columns: dict[str, Any] = {"time": self.time}
        columns |= {name: self.alpha[:, k] for k, name in enumerate(self.regimes)}
        for k, name in enumerate(self.regimes):
            columns[f"{name}_lower"] = self.lower[:, k]
            columns[f"{name}_upper"] = self.upper[:, k]
        return pd.DataFrame(columns | {"residual": self.residual, "flag": self.flag})

    def to_xarray(self) -> xr.Dataset:
        """alpha, lower and upper over time and regime, residual and flag over time."""
        try:
            import xarray as xr
        except ImportError as error:
            fix = 'pip install "mechtrace[xarray]"'
            raise MissingDependency("to_xarray needs the package xarray", fix=fix) from error
        both = ("time", "regime")
        return xr.Dataset(
            {
                "alpha": (both, self.alpha),
                "lower": (both, self.lower),
                "upper": (both, self.upper),
                "residual": ("time", self.residual),
                "flag": ("time", np.asarray(self.flag, dtype=np.str_)),
            },
            coords={"time": self.time, "regime": list(self.regimes)},
            attrs={
                "name": self.name,
                "method": self.method,
                "causal": int(self.causal),  # netCDF has no truth values
                "level": self.level,
                "trials": self.trials,
            },
        )

    def events(self, *, edge: float = 0.1, minimum: int = 1) -> list[Event]:
        """Every handover from one regime to the next; an empty list means no change."""
        return find_events(self.time, self.alpha, self.regimes, edge=edge, minimum=minimum)

    def calibrate(
        self, known: Sequence[Known], *, how: str = "auto", simplex: bool = True
    ) -> Trajectory:
        """The curve corrected by stretches whose regime is known: (regime, from, to).

        Instead of one regime a stretch may name weights, as {"walk": 0.5, "run": 0.5}. How:
        see `mechtrace.recover.known.calibrated`, which also takes several curves.
        """
        from .known import calibrated

        return calibrated([self], known, how=how, simplex=simplex)[0]

    def plot(self, ax: Any = None, truth: np.ndarray | None = None) -> Any:
        """Draw alpha(t) with its intervals; returns matplotlib axes."""
        from ..plot import trajectory

        return trajectory(self, ax, truth)

    def _repr_html_(self) -> str:
        from ..notebook import trajectory_html

        return trajectory_html(self)

    def __str__(self) -> str:
        events = self.events(minimum=2)
        if not events:
            known = np.isfinite(self.alpha).all(axis=1) & (self.flag != "warm-up")
            if not known.any():
                return f"{self.name}: too short to say anything"
            shares = self.alpha[known].mean(axis=0)
            leader, share = self.regimes[int(shares.argmax())], float(shares.max())
            if share < CLEAR:
                return f"{self.name}: no clear change; {leader} leads with {share:.2f} on average"
            return f"{self.name}: no change, {leader} throughout"
        text = [f"{events[0].from_regime} until {shown_time(events[0].onset)}"]
        text += [
            f"{e.to_regime} from {shown_time(e.end)} (halfway at {shown_time(e.midpoint)})"
            for e in events
        ]
        return f"{self.name}: " + ", ".join(text)
