"""Readers against the recordings themselves, where they are; see MECHTRACE_DATA."""
