"""From parquet measurements to probe rows in shards, split into train and eval by probe."""
