"""The contexts of a batch: their order, and the measurements that each draws from its row.

Start with `sampler.py`; `context_order.py` plans the order.
"""
