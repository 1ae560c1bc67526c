"""Pictures of a pipeline and its findings, as text (`terminal.py`) or SVG (`drawing.py`)."""
