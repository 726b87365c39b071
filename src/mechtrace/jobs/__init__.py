"""Long work in pieces: each in a fresh process, each result kept, a repeated command goes on."""

from .job import FAILED, FINISHED, SKIPPED, Job, Row
from .runner import run_jobs
from .watch import Watch

__all__ = ["FAILED", "FINISHED", "SKIPPED", "Job", "Row", "Watch", "run_jobs"]
