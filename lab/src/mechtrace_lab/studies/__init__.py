"""Studies in simulated worlds: recovery, alignment, convexity test and theorems.

Enters: the name of a world and its sizes. Happens: worlds are drawn, models trained and their
answers scored against the truth. Leaves: a dictionary of rows with configuration and versions.
"""

#: The schedules of the paper's tables.
SCHEDULES = ("simple", "medium", "complex")
