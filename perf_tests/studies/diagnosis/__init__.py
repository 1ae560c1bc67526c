"""Is diagnose right? Planted stages to name, and predictions to hold to what comes."""
