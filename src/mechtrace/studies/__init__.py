"""Worlds with known truth: how well do recovery, tests and theorems do there?"""
