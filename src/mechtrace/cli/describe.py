"""The command describe: regimes in terms of the sensors."""

from __future__ import annotations

import logging

from .options import Json, Model, Quiet, check_targets, write_json

logger = logging.getLogger(__name__)


def describe(model: Model, json_file: Json = None, quiet: Quiet = False) -> None:
    """Say what sets the regimes of a model apart, in terms of its sensors.

    Levels, fluctuations, rhythms and responses that differ beyond chance, the most telling first.

    \b
    Examples:
      mechtrace describe pump.mechtrace
      mechtrace describe pump.mechtrace --json - | jq .regimes
    """
    from ..estimator import load

    check_targets([json_file], [model])
    found = load(model).describe()
    logger.info(str(found))
    write_json(json_file, found.to_dict())
