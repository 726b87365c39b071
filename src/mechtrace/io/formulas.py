"""Names that a spreadsheet would take for formulas: an apostrophe before them makes them text.

Only text is touched, never a number. Reading removes exactly what writing added, so every name
comes back as it was.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

#: A name that begins with one apostrophe or more before a formula gets another one.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def escape_formula(text: str) -> str:
    """Write a name for a cell of a table.

    >>> escape_formula("=1+1"), escape_formula("walk")
    ("'=1+1", 'walk')
    """
    return f"'{text}" if _FORMULA.match(text) else text


def unescape_formula(text: str) -> str:
    """Read a name from a cell of a table.

    >>> unescape_formula("'=1+1"), unescape_formula("'80s")
    ('=1+1', "'80s")
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def escape_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose headers and text cells are no formulas."""
    import pandas as pd

    changed: dict[str, pd.Series] = {}
    for label, column in frame.items():
        name = str(label)
        if isinstance(column.dtype, pd.CategoricalDtype):
            names = column.cat.categories.astype(object)
            if any(escape_formula(str(one)) != str(one) for one in names):
                changed[name] = column.cat.rename_categories(
                    [escape_formula(str(one)) for one in names]
                )
        elif column.dtype == object or isinstance(column.dtype, pd.StringDtype):
            table = {
                one: escape_formula(one)
                for one in column.unique()
                if isinstance(one, str) and escape_formula(one) != one
            }
            if table:
                changed[name] = column.map(lambda cell, table=table: table.get(cell, cell))
    headers = [escape_formula(name) if isinstance(name, str) else name for name in frame]
    frame = frame.assign(**changed) if changed else frame  # copies
    return frame if headers == list(frame) else frame.set_axis(headers, axis=1)


def unescape_column(column: pd.Series) -> pd.Series:
    """Return a column of names as they were before they were written."""
    table = {
        one: unescape_formula(one)
        for one in column.unique()
        if isinstance(one, str) and unescape_formula(one) != one
    }
    return column.map(lambda cell: table.get(cell, cell)) if table else column
