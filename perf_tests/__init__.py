"""The performance tests of this repository's pipeline: what `--benchmark-compare` runs."""
