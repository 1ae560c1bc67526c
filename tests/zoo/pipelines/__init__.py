"""One adaptor for each pipeline: `loader(workers)` as the package's own guide makes it."""
