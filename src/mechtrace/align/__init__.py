"""Axis alignment: which latent coordinates are identified, by what evidence, and how surely.

Isotropic Gaussian noise leaves a rotation of the latents free: the likelihood is the same in all
of them. What can fix the axes is tested here, kind by kind, on held-out stretches; see
docs/explanation/identifiability.md.
"""

from .axes import Axes, Axis, Evidence
from .edges import named_changes

__all__ = ["Axes", "Axis", "Evidence", "named_changes"]
