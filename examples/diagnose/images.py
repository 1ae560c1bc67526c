"""Photographs for a classifier: JPEGs in an ArrayRecord, decoded with Pillow, augmented, batched.

The first call makes a few hundred pictures and keeps them in a cache folder.
"""

import io
import os
from pathlib import Path

import grain
import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter
from PIL import Image

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "netpipe-examples")
PICTURES = 512
WIDTH, HEIGHT = 400, 300  # pixels
CROP = 224
BATCH_SIZE = 16
SEED = 7


def make_picture(rng: np.random.Generator) -> bytes:
    """Draw a cloudy picture with some grain in it, as a JPEG."""
    clouds = Image.fromarray(rng.integers(0, 256, (12, 16, 3), np.uint8))
    pixels = np.asarray(clouds.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC), np.int16)
    pixels = pixels + rng.integers(-12, 13, pixels.shape, np.int16)
    file = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=90)
    return file.getvalue()


def make_pictures(path: Path) -> None:
    """Write all pictures to an ArrayRecord."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    writer = ArrayRecordWriter(str(unfinished), "group_size:1")
    rng = np.random.default_rng(SEED)
    for _ in range(PICTURES):
        writer.write(make_picture(rng))
    writer.close()
    unfinished.replace(path)


def decode(record: bytes) -> Image.Image:
    """Read a JPEG."""
    return Image.open(io.BytesIO(record)).convert("RGB")


def resize(picture: Image.Image) -> Image.Image:
    """Make the shorter side 256 pixels long."""
    scale = 256 / min(picture.size)
    width, height = (round(scale * side) for side in picture.size)
    return picture.resize((width, height), Image.Resampling.BILINEAR)


class Augment(grain.transforms.RandomMap):
    """Crop a random square, and mirror half of them."""

    def random_map(self, element: Image.Image, rng: np.random.Generator) -> np.ndarray:
        """Return float32 (CROP, CROP, 3), from -1 to 1."""
        left = int(rng.integers(element.width - CROP + 1))
        top = int(rng.integers(element.height - CROP + 1))
        picture = element.crop((left, top, left + CROP, top + CROP))
        if rng.random() < 0.5:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return np.asarray(picture, np.float32) / 127.5 - 1.0


def pictures() -> grain.MapDataset:
    """Return endless augmented pictures: float32 (CROP, CROP, 3)."""
    path = CACHE / f"pictures-{PICTURES}.array_record"
    if not path.exists():
        make_pictures(path)
    return (
        grain.MapDataset.source(grain.sources.ArrayRecordDataSource([str(path)]))
        .seed(SEED)
        .shuffle()
        .repeat()
        .map(decode)
        .map(resize)
        .random_map(Augment())
    )


def loader() -> grain.IterDataset:
    """Return batches: float32 (BATCH_SIZE, CROP, CROP, 3)."""
    return pictures().to_iter_dataset().batch(BATCH_SIZE)
