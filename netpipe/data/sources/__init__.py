"""Random access to probe rows in prepared folders, parquet files and inherited files."""
