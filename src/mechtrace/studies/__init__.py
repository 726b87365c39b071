"""Worlds with known truth: how well do recovery, tests and theorems do there?"""

#: The schedules of the paper's tables.
SCHEDULES = ("simple", "medium", "complex")
