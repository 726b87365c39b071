"""Long work in pieces: each in a fresh process, each result kept, a repeated command goes on."""

from .job import FAILED, FINISHED, SKIPPED, Job, Row, plain
from .runner import collect, new_folder

__all__ = ["FAILED", "FINISHED", "SKIPPED", "Job", "Row", "collect", "new_folder", "plain"]
