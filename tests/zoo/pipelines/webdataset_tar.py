"""webdataset: tar shards, decoded, mapped and batched by a WebLoader with workers."""

import tempfile
from pathlib import Path
from typing import Any

import webdataset

from tests.zoo.images import COUNT, Image, augment, make_image

_SHARDS = 4


def write_shards(folder: Path) -> list[str]:
    """Write the images into tar files, once."""
    paths = [folder / f"images-{shard}.tar" for shard in range(_SHARDS)]
    for shard, path in enumerate(paths):
        if not path.exists():
            with webdataset.TarWriter(str(path)) as tar:
                for number in range(shard, COUNT, _SHARDS):
                    tar.write({"__key__": f"{number:06d}", "image.npy": make_image(number)})
    return list(map(str, paths))


def transform(sample: tuple[Image]) -> Image:
    """Augment the image of a sample."""
    return augment(sample[0])


def loader(workers: int = 1) -> Any:
    """Return a loader of one shuffled epoch."""
    folder = Path(tempfile.gettempdir()) / "netpipe-zoo-tar"
    folder.mkdir(exist_ok=True)
    shards = write_shards(folder)
    dataset = webdataset.WebDataset(shards, shardshuffle=_SHARDS, seed=0).shuffle(100).decode()
    batched = dataset.to_tuple("image.npy").map(transform).batched(32, partial=False)
    return webdataset.WebLoader(batched, batch_size=None, num_workers=workers)
