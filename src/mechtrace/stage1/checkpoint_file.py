"""Whether a fit may write its checkpoint: what another run has left there is not lost."""

from __future__ import annotations

from pathlib import Path

from ..errors import ConfigError, StoreError
from ..io.model_file import read_archive


def check_checkpoint(path: str | Path, *, resume: bool = False, restart: bool = False) -> None:
    """Refuse to replace a checkpoint unasked, and any other file of its name.

    Parameters
    ----------
    path
        Where the fit will write its checkpoints.
    resume, restart
        Whether the fit is to continue from the checkpoint there, or to replace it.

    Raises
    ------
    StoreError
        If there is a file, and neither was asked for or it is no checkpoint.
    ConfigError
        If both were asked for.
    """
    path = Path(path)
    if resume and restart:
        what = "a run cannot both go on and begin again"
        raise ConfigError(what, fix="give one of resume=True and restart=True")
    if not path.exists():
        return
    if not (resume or restart):
        raise StoreError(
            "the checkpoint of another run is left there",
            where=str(path),
            fix="continue that run with resume=True, or replace it with restart=True",
        )
    if restart and not _is_checkpoint(path):
        what, fix = "is no intact checkpoint, so it is not replaced", "move it away"
        raise StoreError(what, where=str(path), fix=fix)


def _is_checkpoint(path: Path) -> bool:
    try:
        return read_archive(path).kind == "checkpoint"
    except (StoreError, OSError):
        return False
