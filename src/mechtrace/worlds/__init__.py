"""Simulators with known truth: worlds to learn from, schedules to recover."""

from . import peers as peers
from .schedules import SCHEDULES, make_schedule
from .simulation import EmergentEdge, Simulation, write_truth
from .synthetic import PRESETS, World, WorldConfig, make

__all__ = [
    "PRESETS",
    "SCHEDULES",
    "EmergentEdge",
    "Simulation",
    "World",
    "WorldConfig",
    "make",
    "make_schedule",
    "write_truth",
]
