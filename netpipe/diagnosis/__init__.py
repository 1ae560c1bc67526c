"""Which stage of a loader is slow, which resource binds it, and what each change would give."""
