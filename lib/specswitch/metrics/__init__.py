"""Typed records and the named pure functions that turn them into numbers. Plain Python."""
