"""The data side: measurements on disk, and the pipeline that makes batches of them."""
