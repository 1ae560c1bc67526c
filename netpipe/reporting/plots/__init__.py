"""Drawings of figures as whole SVG documents."""
