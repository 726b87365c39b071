"""Seeded generators of bad input, for the tests and for long runs."""
