"""The catalogue, a family or two a file."""
