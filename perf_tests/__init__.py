"""Performance tests of this repository's pipeline, to run with `--benchmark-compare`."""
