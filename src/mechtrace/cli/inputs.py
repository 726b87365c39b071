"""What commands read: labelled recordings to fit, or a stored model and new recordings."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, MissingColumn
from ..io.column_names import ROLES
from .options import named

if TYPE_CHECKING:
    from ..data.panel import Panel
    from ..data.read import Reading
    from ..estimator import Trace
    from ..stage2.trajectory import Trajectory

logger = logging.getLogger(__name__)


def read_labelled(data: Sequence[Path], reading: dict[str, Any]) -> Reading:
    """Read and prepare recordings that have regime labels.

    Parameters
    ----------
    data
        Files, folders or patterns.
    reading
        Roles of columns and preparation, as the options of `READING` give them.

    Returns
    -------
    Reading
        The recordings and how they were read.

    Raises
    ------
    DataError
        If there are no labels.
    """
    from ..data.plausible import checked_for_training
    from ..data.read import read_inputs
    from ..data.regime_order import by_appearance
    from ..io.parts import Preparation

    roles = dict(reading)
    preparation = Preparation(rate=roles.pop("rate", None), detrend=roles.pop("detrend", None))
    found = read_inputs(data, **roles)
    if not found.panel.labelled:
        text = [name for name, why in found.left_out.items() if why == "text"]
        what, fix = "no column is known to hold the regime", "name it: --regime COLUMN"
        if text:
            fix += f" (columns with text here: {', '.join(text[:8])})"
        if found.panel.is_image:
            what, fix = "the recordings have no regime", "put those of each regime into a folder"
        raise DataError(what, where=found.panel.source, fix=fix)
    found = _divided(found)
    found = found._replace(panel=by_appearance(found.panel))
    logger.info(found.summary)
    # before a trend or an average spreads an absurd cell over others
    return found._replace(panel=preparation.apply(checked_for_training(found.panel)))


def _divided(found: Reading) -> Reading:
    """Divide one long recording where its regime changes, so that parts can be held out."""
    from ..data.join import split_at_regimes

    parts = split_at_regimes(found.panel)
    if parts is found.panel:
        return found
    regime = found.roles.get("regime") or "the regime"
    split = f"one recording, split where {regime} changes or time leaps: {len(parts)} parts"
    return found._replace(panel=parts, notes=found.notes | {"split": split})


def model_and_data(
    model: Path,
    data: Sequence[Path],
    given: dict[str, Any],
    *,
    labelled: bool = False,
    extra: Sequence[str] = (),
    without: Sequence[str] = (),
) -> tuple[Trace, Panel]:
    """Load a model and read new recordings of its channels, prepared as those of its fit.

    Options of the command line override what the model remembers. With `extra` columns beside
    the channels, the recordings are not prepared yet. Sensors left out (`without`) need no column.
    """
    from ..data.read import read_inputs
    from ..estimator import load
    from ..io.discover import DATA_TYPES

    if model.name.lower().endswith(DATA_TYPES):
        fix = "name the model first, then the data"
        raise DataError("this is data, not a mechtrace file", where=str(model), fix=fix)
    trace = load(model)
    shape = trace.shape_
    size = "x".join(map(str, shape)) if len(shape) == 2 else None  # pictures as in training
    usual = trace.preparation_
    trace.preparation_ = usual.overridden(**given)
    there = [name for name in trace.channels_ if name not in without]
    try:
        reading = read_inputs(
            data, trace.preparation_.missing, [*there, *extra], given.get("gap"),
            labelled=labelled, size=size, model_roles=usual.columns,
            **{role: given.get(role) for role in ROLES},
        )  # fmt: skip
    except MissingColumn as error:
        raise error.or_without(f"--without {shlex.quote(error.column)}") from error
    logger.info(reading.summary)
    kept = {name: getattr(usual, name) for name in ("missing", "gap", "rate", "detrend")}
    used = [
        f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in kept.items()
        if value is not None and name not in given
    ]
    if used:
        logger.info(f"as in the fit: {', '.join(used)}")
    step = trace.preparation_.step or trace.record_.data.step
    if reading.notes and reading.roles.get("time") is None and step not in (None, 1.0):
        what = f"no column is known to hold the time, and in training rows were {step:g} apart"
        raise DataError(what, where=reading.panel.source, fix="name it: --time COLUMN")
    return trace, reading.panel if extra else trace.prepared(reading.panel, without)


def recovered(
    trace: Trace, panel: Panel, request: dict[str, Any], *, progress: bool = False
) -> list[Trajectory]:
    """Recover with the options of `RECOVERY`; always a list."""
    from ..stage2.calibration import KnownInterval

    request = dict(request)
    active = request.pop("active", "")
    found = trace.recover(
        panel,
        active="auto" if active == "auto" else named(active),
        evidence=request.pop("evidence", None),
        anchor=[KnownInterval.parse(text) for text in request.pop("anchor", ())],
        estimate_offset=request.pop("estimate_offset", False),
        progress=progress,
        without=request.pop("without", ()),
        **request,
    )
    return found if isinstance(found, list) else [found]
