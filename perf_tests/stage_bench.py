"""A block of real rows, the input of the pipeline's stages."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from netpipe.workload.sampling.context_order import Epochs, RowOrder, contexts_per_row
from netpipe.workload.sampling.sampler import ContextDraws, Contexts, DrawnRows, read_block
from netpipe.workload.sources.probe_rows import RowSource, open_source
from netpipe.workload.tokens.batches import Sequences
from netpipe.workload.tokens.packing import likely_contexts, pack

SEED, SEQUENCES, LENGTH = 0, 128, 1024


@dataclass(frozen=True)
class Bench:
    """Rows that become a batch of 128 sequences of 1024 tokens.

    Attributes:
        source: The source of the rows.
        rows: The rows that were read.
        likely: Number of contexts that will probably fill the batch.
    """

    source: RowSource
    rows: DrawnRows
    likely: int

    def read(self) -> DrawnRows:
        """Read the rows again."""
        return read_block(self.source, self.rows.block)

    def draw(self) -> Contexts:
        """Draw `likely` contexts."""
        return ContextDraws(self.rows, seed=SEED, sequence_length=LENGTH).take(self.likely)

    def pack(self) -> Sequences:
        """Fill the batch's sequences."""
        return pack(
            self.rows,
            seed=SEED,
            sequences=SEQUENCES,
            sequence_length=LENGTH,
            at_first=self.likely,
        )


def benches(data: Path) -> Iterator[Bench]:
    """Yield successive blocks of a train split, without end."""
    source = open_source(data, "train")
    sizes = source.row_measurements
    likely = likely_contexts(sizes, sequences=SEQUENCES, sequence_length=LENGTH)
    blocks = max(1, int(contexts_per_row(sizes).sum()) // likely)
    epochs = Epochs(sizes, seed=SEED, row_group=source.row_group)
    order = RowOrder(epochs, blocks_per_epoch=blocks, blocks=1 << 40)
    for number in count():
        yield Bench(source, read_block(source, order[number]), likely)
