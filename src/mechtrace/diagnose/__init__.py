"""Can this curve be trusted? Compute first, judge afterwards. No torch in this room."""

from .findings import Diagnosis, Finding
from .judge import diagnose

__all__ = ["Diagnosis", "Finding", "diagnose"]
