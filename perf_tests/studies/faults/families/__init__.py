"""The catalogue, with one or two families per file."""
