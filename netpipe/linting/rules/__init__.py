"""The rules over a pipeline's graph: one function each, in a file by what they look at."""
