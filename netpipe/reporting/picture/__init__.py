"""A pipeline with its findings as text (`terminal.py`) and as SVG (`drawing.py`)."""
