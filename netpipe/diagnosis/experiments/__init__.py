"""Runs of a loader in altered forms, in turns with the unmodified loader."""
