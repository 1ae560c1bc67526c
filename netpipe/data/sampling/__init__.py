"""Which measurements of which rows make a context, in which order."""
