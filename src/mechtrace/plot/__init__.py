"""Result objects, or plain arrays -> matplotlib axes.

Every function draws into `ax`, or into a new figure without one, and returns the axes: one, or an
array of them where the figure has several panels (then `ax` may be a list, or one that is
divided). Colours are those of the report; nothing global is changed.
"""

from .contest import comparison, method_curves
from .curves import calibration, compare_curves, latents, residual, surprise, trajectory
from .graph import mechanism_graph
from .inputs import curve
from .many import overview
from .matrices import correlation, mechanisms, mechanisms_at
from .paths import simplex_path
from .scenes import frames, skeletons, track
from .style import COLOURS
from .sweeps import error_against_bound, error_against_length, methods, sweep, theory
from .verdicts import axes_evidence, diagnosis, training

__all__ = [
    "COLOURS",
    "axes_evidence",
    "calibration",
    "compare_curves",
    "comparison",
    "correlation",
    "curve",
    "diagnosis",
    "error_against_bound",
    "error_against_length",
    "frames",
    "latents",
    "mechanism_graph",
    "mechanisms",
    "mechanisms_at",
    "method_curves",
    "methods",
    "overview",
    "residual",
    "simplex_path",
    "skeletons",
    "surprise",
    "sweep",
    "theory",
    "track",
    "training",
    "trajectory",
]
