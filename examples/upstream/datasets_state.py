"""Compare the state of a restored stream with the one it was restored from."""

import sys

from datasets import Dataset

if __name__ == "__main__":
    elements = Dataset.from_dict({"id": list(range(100))})
    stream = elements.to_iterable_dataset(num_shards=4)
    iterator = iter(stream)
    for _ in range(30):
        next(iterator)
    saved = stream.state_dict()
    restored = elements.to_iterable_dataset(num_shards=4)
    restored.load_state_dict(saved)
    found = restored.state_dict()
    sys.stdout.write(f"saved:    {saved}\nrestored: {found}\n")
    sys.exit(0 if found == saved else 1)
