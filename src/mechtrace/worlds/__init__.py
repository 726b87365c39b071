"""Simulators with known truth: worlds to learn from, schedules to recover."""

from . import peers as peers
from .dynamics import Dynamics
from .physics import Physics, PhysicsConfig
from .pump import Pump, PumpConfig
from .schedules import SCHEDULES, make_schedule
from .simulation import EmergentEdge, Simulation, write_truth
from .synthetic import PRESETS, World, WorldConfig, make
from .view import View

__all__ = [
    "PRESETS",
    "SCHEDULES",
    "Dynamics",
    "EmergentEdge",
    "Physics",
    "PhysicsConfig",
    "Pump",
    "PumpConfig",
    "Simulation",
    "View",
    "World",
    "WorldConfig",
    "make",
    "make_schedule",
    "write_truth",
]
