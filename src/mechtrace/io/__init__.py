"""Files, tables and arrays -> the fields of a Panel, and back.

Enters: CSV, spreadsheets, Parquet, NPZ, DataFrames, arrays, pictures; model files. Happens: files
are found and opened once, the dialect and the roles of the columns are detected, time stamps and
labels are parsed, and every field is checked once. Leaves: `Parts` (plain arrays, sorted by series
and time, from which `data.Panel` is made), tables on disk, model files.
"""

from .._runtime.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
