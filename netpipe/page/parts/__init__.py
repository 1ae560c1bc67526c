"""The content of a page: one module for each kind of document or for a group of its cards."""
