"""One family of errors: each names what is wrong, where, and what to do next, in one sentence."""

from __future__ import annotations

import re

#: Characters that act on a terminal, and halves of characters, as in names that are not UTF-8.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def visible(text: str, *, lines: bool = False) -> str:
    r"""Return text that does nothing to a terminal: control characters are written as escapes.

    Every error and every message of the command line passes through here.

    Parameters
    ----------
    text : str
        Text that may hold names from a file or a path.
    lines : bool
        Leave line breaks and tabs as they are.

    Returns
    -------
    str
        The same text, with `\x1b` for an escape character.
    """

    def escaped(found: re.Match[str]) -> str:
        kept = lines and found[0] in "\n\t"
        return found[0] if kept else found[0].encode("unicode_escape").decode("ascii")

    return _UNPRINTABLE.sub(escaped, text)


class MechtraceError(Exception):
    """Base of every error that mechtrace raises on purpose.

    Parameters
    ----------
    what : str
        What is wrong.
    where : str, optional
        File, column or setting.
    fix : str, optional
        What to do next.

    Examples
    --------
    >>> print(DataError("the regime column is missing", where="runs.csv", fix="add one"))
    runs.csv: the regime column is missing; add one.
    """

    def __init__(self, what: str, *, where: str | None = None, fix: str | None = None) -> None:
        self.what, self.where, self.fix = what, where, fix
        sentence = f"{where}: {what}" if where else what
        sentence = f"{sentence}; {fix}" if fix else sentence
        super().__init__(visible(sentence).rstrip(".") + ".")


class DataError(MechtraceError, ValueError):
    """The input data cannot be used as it is."""


class MissingColumn(DataError):
    """A table lacks a column that was asked for.

    Attributes
    ----------
    column : str
        Its name.
    role : str
        What it was asked for as: "channel", "time", ...
    """

    def __init__(self, column: str, role: str, what: str, *, where: str, fix: str) -> None:
        self.column, self.role = column, role
        super().__init__(what, where=where, fix=fix)

    def or_without(self, option: str) -> DataError:
        """Return the error with the advice to do without the sensor."""
        if self.role != "channel":
            return self
        fix = f"name it as in training ({self.fix}), or recover without that sensor: {option}"
        return DataError(self.what, where=self.where, fix=fix)


class ConfigError(MechtraceError, ValueError):
    """A setting is out of range or contradicts another."""


class StoreError(MechtraceError):
    """A stored model or checkpoint is damaged, foreign or too new."""


class FitError(MechtraceError, RuntimeError):
    """Training failed; no model is returned."""


class Diverged(FitError):
    """The loss became NaN or infinite."""


class DeadExpert(FitError):
    """The expert of a regime learned nothing about its dynamics."""


class FitWarning(UserWarning):
    """A fit that ended well enough to be used, but not well."""


class DataWarning(UserWarning):
    """Data that can be used with care."""


class NotFitted(MechtraceError, RuntimeError):
    """The estimator has no trained model yet."""


class MissingDependency(MechtraceError, ImportError):
    """An optional package is needed for what was asked."""
