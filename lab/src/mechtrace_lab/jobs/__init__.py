"""Long computations in parts that survive interruption.

Enters: jobs. Happens: each runs in a fresh process, some at once; a stored result is not computed
again. Leaves: one row per job, as a JSON file in a folder.
"""

from .job import FAILED, FINISHED, SKIPPED, Job, Row, peak_memory, plain
from .parallel_map import parallel_map
from .runner import collect, new_folder

__all__ = [
    "FAILED", "FINISHED", "SKIPPED", "Job", "Row", "collect", "new_folder", "parallel_map",
    "peak_memory", "plain",
]  # fmt: skip
