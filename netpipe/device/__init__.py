"""The accelerator and the host: what is here, what is known of each model, what can be emulated.

Start with `detection.py`; `accelerators.py` is the table of models.
"""
