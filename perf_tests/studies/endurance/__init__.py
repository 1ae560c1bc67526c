"""Whether the pipeline's memory, files and shared memory grow over time."""
