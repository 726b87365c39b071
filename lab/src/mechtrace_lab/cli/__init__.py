"""Commands that the lab adds to `mechtrace`, by the entry points of its pyproject.

Enters: arguments of the command line. Happens: the lab's functions are called. Leaves: messages,
JSON files and the exit code.
"""
