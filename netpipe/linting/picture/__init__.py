"""A pipeline with what was found in it: `text.py` for the terminal, `drawing.py` as SVG."""
