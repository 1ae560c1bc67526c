"""The performance tests of this repository's pipeline, which `--benchmark-compare` runs."""
