"""Stand-ins for remote storage: a loader's reads take as long as in the real storage.

Start with `profiles.py`, which describes a storage. `emulated_storage.py` enforces its limits
across processes, and `stand_in.py` wraps a source or places a loader in a storage (`--storage`).
"""

from netpipe.storage.stand_in import stand_in

__all__ = ["stand_in"]
