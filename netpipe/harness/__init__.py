"""Measures any loader with any step: why training waits, and how that compares with before."""
