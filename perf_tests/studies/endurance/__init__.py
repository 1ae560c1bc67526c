"""Whether the pipeline goes on for ever: its memory, files and shared memory over time."""
