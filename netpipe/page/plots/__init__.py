"""Drawings of figures: each function returns one whole SVG document."""
