"""How measurements and probe rows are stored: parquet, ArrayRecord shards and their index."""
