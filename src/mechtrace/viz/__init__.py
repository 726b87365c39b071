"""Results -> sentences, figures, a report, notebook cells.

Enters: result objects (Trajectory, Diagnosis, Axes, Mechanisms, Panel). Happens: they are
described (narrative) and drawn (plot, report, renderers). Leaves: text, matplotlib axes, one HTML
file, HTML for notebooks.
"""

from . import plot

__all__ = ["plot"]
