from . import worlds as worlds
from .data import Adapter as Adapter
from .data import Panel as Panel
from .data import Series as Series
from .errors import MechtraceError as MechtraceError
from .estimator import Trace as Trace
from .estimator import load as load
from .identifiability import Mechanisms as Mechanisms
from .stage2 import Trajectory as Trajectory
from .viz import plot as plot
from .viz.report import report as report

__version__: str
