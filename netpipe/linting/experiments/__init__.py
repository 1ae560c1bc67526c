"""What only running tells: variants of a pipeline, compared in what they give and in how fast."""
