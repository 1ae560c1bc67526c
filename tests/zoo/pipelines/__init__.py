"""One adaptor for each pipeline: `loader(workers)`, built as the package's guide says."""
