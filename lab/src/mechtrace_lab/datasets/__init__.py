"""Readers of public recordings: CMU motion capture and UAVDT.

Enters: folders as their owners publish them; nothing is copied. Happens: files are parsed and
turned into channels. Leaves: `Recordings`, a Panel with proxies for the unknown truth.
"""
