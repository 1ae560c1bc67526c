"""Experiments that run variants of a loader in turns with the unmodified loader."""
