"""Axes: the coordinates that a fit found, and how far each of them can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..recover.network import Mechanisms

if TYPE_CHECKING:
    import pandas as pd

ROTATION_ONLY = (
    "identified up to rotation only: alpha(t) is unaffected, do not interpret single axes"
)


@dataclass(frozen=True)
class Axis:
    """The verdict on one latent."""

    name: str
    #: kinds of evidence that single this axis out, the one that was used first
    by: tuple[str, ...] = ()
    #: axes (itself included) among which a rotation is free
    block: tuple[str, ...] = ()
    #: nats per step that the least noticed turn of the axis costs, and its p-value
    cost: float = 0.0
    p_value: float = 1.0
    #: False if the latent carries nothing
    used: bool = True

    @property
    def identified(self) -> bool:
        """Singled out by some evidence."""
        return bool(self.by)

    def __str__(self) -> str:
        if not self.used:
            return f"{self.name}: carries nothing"
        if self.identified:
            return f"{self.name}: identified by {' and '.join(self.by)} (p {_p(self.p_value)})"
        return f"{self.name}: one of {', '.join(self.block)}, {ROTATION_ONLY}"


@dataclass(frozen=True)
class Evidence:
    """One kind of evidence, whether it was enough or not."""

    kind: str
    #: axes that it tells apart from all others when taken alone
    identified: int
    #: median over axes of the cost of the least noticed turn in nats per step, and its p-value
    cost: float
    p_value: float
    facts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Axes:
    """u = matrix z + offset: latents z of the network in the coordinates u that a user sees.

    Each coordinate is in units of its own noise. The network, its likelihood and alpha(t) are
    untouched by this map.
    """

    matrix: np.ndarray = field(repr=False)  # (d, d)
    offset: np.ndarray = field(repr=False)  # (d,)
    axes: tuple[Axis, ...]
    evidence: tuple[Evidence, ...] = ()
    #: by how much the frame of the noise bends over the states, 0 = the latent space is flat
    bending: float = 0.0
    #: W^(k) of each regime with standard errors; None if nothing was aligned
    weights: Mechanisms | None = field(default=None, repr=False)
    #: what the latents are measured with: "mechanism form" or "average effects"
    weights_from: str = ""

    @classmethod
    def unaligned(cls, size: int) -> Axes:
        """The coordinates of the network, about which nothing is claimed."""
        names = tuple(f"z{i}" for i in range(size))
        return cls(np.eye(size), np.zeros(size), tuple(Axis(name, block=names) for name in names))

    # -- coordinates ---------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """z0, z1 and so on."""
        return tuple(axis.name for axis in self.axes)

    def aligned(self, z: np.ndarray) -> np.ndarray:
        """Latents (..., d) of the network in these coordinates."""
        return z @ self.matrix.T + self.offset

    def native(self, u: np.ndarray) -> np.ndarray:
        """The way back."""
        return (u - self.offset) @ np.linalg.inv(self.matrix).T

    def aligned_scale(self, scale: np.ndarray) -> np.ndarray:
        """Standard deviations of each coordinate from those (..., d) of the network."""
        return np.sqrt(scale**2 @ (self.matrix**2).T)

    def aligned_effects(self, effects: np.ndarray) -> np.ndarray:
        """Derivatives (..., source, target) of the network in these coordinates."""
        return np.linalg.inv(self.matrix).T @ effects @ self.matrix.T

    # -- verdict -------------------------------------------------------------------------------

    @property
    def identified(self) -> tuple[str, ...]:
        """Names of the axes that can be interpreted one by one."""
        return tuple(axis.name for axis in self.axes if axis.identified)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of evidence that the map rests on."""
        return tuple(dict.fromkeys(axis.by[0] for axis in self.axes if axis.by))

    @property
    def verdict(self) -> str:
        """One sentence: which axes are identified, and by what."""
        used = [axis for axis in self.axes if axis.used]
        sure = [axis for axis in used if axis.identified]
        if not sure:
            return f"The latents are {ROTATION_ONLY}."
        by = " and ".join(self.kinds)
        if len(sure) == len(used):
            count = f"All {len(used)}" if len(used) == len(self.axes) else f"All {len(used)} used"
            return f"{count} axes are identified by {by}."
        names = ", ".join(axis.name for axis in used if not axis.identified)
        return (
            f"{len(sure)} of {len(used)} axes are identified by {by};"
            f" {names} only up to rotation: do not interpret these one by one."
        )

    def changes(self) -> pd.DataFrame:
        """Edges that set a regime apart from the others: see `mechtrace.align.named_changes`."""
        from .edges import named_changes

        return named_changes(self)

    def sentences(self) -> list[str]:
        """The same in words: 'R3 strengthens z2 -> z5 (0.02 to 0.31)'."""
        from .edges import sentences

        return sentences(self)

    def plot(self, ax: Any = None) -> Any:
        """Draw which evidence singles out which axis; returns matplotlib axes."""
        from ..plot import axes_evidence

        return axes_evidence(self, ax)

    def to_frame(self) -> pd.DataFrame:
        """The verdict axis by axis as a table."""
        import pandas as pd

        rows = [
            {
                "axis": axis.name,
                "identified": axis.identified,
                "by": ", ".join(axis.by),
                "block": " ".join(axis.block),
                "cost": axis.cost,
                "p_value": axis.p_value,
                "used": axis.used,
            }
            for axis in self.axes
        ]
        return pd.DataFrame(rows)

    # -- storing -------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Everything but the arrays, ready for JSON."""
        return {
            "verdict": self.verdict,
            "axes": [
                {
                    "name": axis.name,
                    "by": list(axis.by),
                    "block": list(axis.block),
                    "cost": axis.cost,
                    "p_value": axis.p_value,
                    "used": axis.used,
                }
                for axis in self.axes
            ],
            "evidence": [vars(found) for found in self.evidence],
            "bending": self.bending,
            "weights_from": self.weights_from,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays, by names that start with axes/."""
        out = {"axes/matrix": self.matrix, "axes/offset": self.offset}
        if self.weights is not None and self.weights.error is not None:
            out |= {"axes/weights": self.weights.jacobian, "axes/error": self.weights.error}
        return out

    @classmethod
    def restored(
        cls, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray], regimes: tuple[str, ...]
    ) -> Axes:
        """The inverse of `facts` and `arrays`."""
        axes = tuple(
            Axis(**(dict(entry) | {"by": tuple(entry["by"]), "block": tuple(entry["block"])}))
            for entry in facts["axes"]
        )
        weights = None
        if "axes/weights" in arrays:
            names = tuple(axis.name for axis in axes)
            weights = Mechanisms(
                regimes, arrays["axes/weights"], error=arrays["axes/error"], latents=names
            )
        return cls(
            arrays["axes/matrix"],
            arrays["axes/offset"],
            axes,
            tuple(Evidence(**entry) for entry in facts["evidence"]),
            facts["bending"],
            weights,
            facts["weights_from"],
        )


def _p(value: float) -> str:
    return "< 1e-6" if value < 1e-6 else f"= {value:.2g}"
