"""What is shown of each kind of document."""
