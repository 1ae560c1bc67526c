"""Drawings of figures as complete SVG documents."""
