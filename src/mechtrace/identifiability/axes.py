"""Axes: aligned coordinates of the latents, and which of them are identified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .._runtime.lazy import render
from .mechanisms import Mechanisms, named_changes, sentences

if TYPE_CHECKING:
    import pandas as pd

ROTATION_ONLY = (
    "identified up to rotation only: alpha(t) is unaffected, do not interpret single axes"
)
#: Keys of stored models before they were renamed.
RENAMED = {"cost": "rotation_loss", "block": "subspace"}


@dataclass(frozen=True)
class Axis:
    """Verdict on one latent axis.

    Parameters
    ----------
    name : str
        z0, z1, ...
    by : tuple of str
        Kinds of evidence that identify the axis, the one that was used first.
    subspace : tuple of str
        Axes, itself included, among which any rotation is equally likely.
    rotation_loss : float
        Likelihood lost by the least significant rotation of the axis, in nats per step.
    p_value : float
        Of that loss, corrected for all pairs of axes.
    used : bool
        False if the latent carries no information.
    """

    name: str
    by: tuple[str, ...] = ()
    subspace: tuple[str, ...] = ()
    rotation_loss: float = 0.0
    p_value: float = 1.0
    used: bool = True

    @property
    def identified(self) -> bool:
        """Whether some evidence identifies the axis."""
        return bool(self.by)

    def __str__(self) -> str:
        if not self.used:
            return f"{self.name}: carries no information"
        if self.identified:
            p = "< 1e-6" if self.p_value < 1e-6 else f"= {self.p_value:.2g}"
            return f"{self.name}: identified by {' and '.join(self.by)} (p {p})"
        return f"{self.name}: one of {', '.join(self.subspace)}, {ROTATION_ONLY}"


@dataclass(frozen=True)
class EvidenceSummary:
    """One kind of evidence for axes, sufficient or not.

    Parameters
    ----------
    kind : str
        Such as "non-Gaussian noise".
    identified : int
        Number of axes that it identifies by itself.
    rotation_loss : float
        Median over axes of the likelihood lost by the least significant rotation, nats per step.
    p_value : float
        Median over axes.
    facts : dict
        Statistics of this kind.
    """

    kind: str
    identified: int
    rotation_loss: float
    p_value: float
    facts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Axes:
    """Aligned coordinates u = A z + c of the network's latents z.

    Each coordinate is in units of its own noise. The map changes neither the likelihood nor
    alpha(t).

    Parameters
    ----------
    matrix : (d, d)
        A.
    offset : (d,)
        c.
    axes : tuple of Axis
        The verdict on each coordinate.
    evidence : tuple of EvidenceSummary
        Every kind of evidence that was tested.
    curvature : float
        Relative change of the noise's scale over the states; 0 in a flat latent space.
    weights : Mechanisms, optional
        W^(k) of each regime with standard errors; None without alignment.
    weights_from : str
        How they were estimated: "mechanism form" or "average effects".
    held_out : bool
        Whether all test series were held out from training.
    """

    matrix: np.ndarray = field(repr=False)
    offset: np.ndarray = field(repr=False)
    axes: tuple[Axis, ...]
    evidence: tuple[EvidenceSummary, ...] = ()
    curvature: float = 0.0
    weights: Mechanisms | None = field(default=None, repr=False)
    weights_from: str = ""
    held_out: bool = True

    @classmethod
    def unaligned(cls, size: int) -> Axes:
        """Keep the network's coordinates; no axis is identified."""
        names = tuple(f"z{i}" for i in range(size))
        axes = tuple(Axis(name, subspace=names) for name in names)
        return cls(np.eye(size), np.zeros(size), axes)

    # -- coordinates ---------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the axes."""
        return tuple(axis.name for axis in self.axes)

    def aligned(self, z: np.ndarray) -> np.ndarray:
        """Map the network's latents (..., d) to aligned coordinates."""
        return z @ self.matrix.T + self.offset

    def native(self, u: np.ndarray) -> np.ndarray:
        """Map aligned latents (..., d) to the network's."""
        return (u - self.offset) @ np.linalg.inv(self.matrix).T

    def aligned_effects(self, effects: np.ndarray) -> np.ndarray:
        """Map Jacobians (..., source, target) of the network to aligned coordinates."""
        return np.linalg.inv(self.matrix).T @ effects @ self.matrix.T

    # -- verdict -------------------------------------------------------------------------------

    @property
    def identified(self) -> tuple[str, ...]:
        """Names of the axes that can be interpreted individually."""
        return tuple(axis.name for axis in self.axes if axis.identified)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of evidence that set the axes."""
        return tuple(dict.fromkeys(axis.by[0] for axis in self.axes if axis.by))

    @property
    def verdict(self) -> str:
        """Which axes are identified, by what, and whether training series were tested."""
        note = " Training series were tested too: too few were held out."
        return self._claim() + (note if self.evidence and not self.held_out else "")

    def _claim(self) -> str:
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
            f" {names} only up to rotation: do not interpret these individually."
        )

    def changes(self) -> pd.DataFrame:
        """Edges in which a regime differs: see `mechtrace.identifiability.named_changes`."""
        return named_changes(self)

    def sentences(self) -> list[str]:
        """Describe `changes` in sentences: 'R3 strengthens z2 -> z5 (0.02 to 0.31)'."""
        return sentences(self)

    def plot(self, ax: Any = None) -> Any:
        """Draw which evidence identifies which axis; returns matplotlib axes."""
        return render("axes_plot", self, ax)

    def to_frame(self) -> pd.DataFrame:
        """Tabulate the verdict on each axis."""
        import pandas as pd

        columns = ["axis", "identified", "by", "subspace", "rotation_loss", "p_value", "used"]
        rows = [
            (axis.name, axis.identified, ", ".join(axis.by), " ".join(axis.subspace),
             axis.rotation_loss, axis.p_value, axis.used)
            for axis in self.axes
        ]  # fmt: skip
        return pd.DataFrame(rows, columns=columns)

    # -- storing -------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Everything but the arrays, for JSON."""
        return {
            "verdict": self.verdict,
            "axes": [
                vars(axis) | {"by": list(axis.by), "subspace": list(axis.subspace)}
                for axis in self.axes
            ],
            "evidence": [vars(found) for found in self.evidence],
            "curvature": self.curvature,
            "weights_from": self.weights_from,
            "held_out": self.held_out,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays by names that start with axes/."""
        out = {"axes/matrix": self.matrix, "axes/offset": self.offset}
        if self.weights is not None and self.weights.error is not None:
            out |= {"axes/weights": self.weights.jacobian, "axes/error": self.weights.error}
        return out

    @classmethod
    def restored(
        cls, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray], regimes: tuple[str, ...]
    ) -> Axes:
        """Invert `facts` and `arrays`."""

        def current(entry: Mapping[str, Any]) -> dict[str, Any]:
            return {RENAMED.get(key, key): value for key, value in entry.items()}

        stored = [current(entry) for entry in facts["axes"]]
        axes = tuple(
            Axis(**entry | {"by": tuple(entry["by"]), "subspace": tuple(entry["subspace"])})
            for entry in stored
        )
        evidence = tuple(EvidenceSummary(**current(entry)) for entry in facts["evidence"])
        curvature = facts["curvature"] if "curvature" in facts else facts["bending"]
        weights = None
        if "axes/weights" in arrays:
            jacobian, error = arrays["axes/weights"], arrays["axes/error"]
            names = tuple(axis.name for axis in axes)
            weights = Mechanisms(regimes, jacobian, error=error, latents=names)
        return cls(
            arrays["axes/matrix"], arrays["axes/offset"], axes, evidence, curvature, weights,
            facts["weights_from"], facts.get("held_out", False),
        )  # fmt: skip
