"""Experiments that run variants of a loader in turns."""
