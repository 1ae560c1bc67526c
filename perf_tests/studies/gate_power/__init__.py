"""How often the gate raises a false alarm, and how often it finds slower code."""
