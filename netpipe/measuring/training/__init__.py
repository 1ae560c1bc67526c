"""A training step and the trainer's loop: emulated, timed alone, and observed together."""
