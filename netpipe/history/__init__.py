"""Results over commits: a file of them, and the commits at which a metric changed."""
