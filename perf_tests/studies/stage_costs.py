"""`python -m perf_tests.studies.stage_costs`: the cost of each stage."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from multiprocessing import Pipe
from pathlib import Path
from statistics import median
from threading import Thread
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from netpipe.device.host import this_host
from netpipe.errors import NetpipeError
from netpipe.workload.preparation.synthetic import data_of_user
from netpipe.workload.tokens.batches import Sequences, sequences_of, widen
from netpipe.workload.tokens.packing import cut
from netpipe.workload.tokens.tokenizer import encode
from perf_tests.stage_bench import LENGTH, SEQUENCES, Bench, benches

_BATCHES = 40
_WARM_UP = 5


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--data", type=click.Path(path_type=Path), help="Prepared data, or the default set.")
def main(data: Path | None) -> None:
    """Print the CPU time of each stage, medians over 40 batches of 128 x 1024 in one process.

    The last rows are costs that no pipeline avoids: copying the batch once in memory, and sending
    the workers' arrays, or the whole batch, through a pipe.
    """
    measured: list[Mapping[str, float]] = []
    tokens: list[int] = []
    try:
        for bench in islice(benches(data or data_of_user()), _WARM_UP + _BATCHES):
            costs, real = _measure_costs(bench)
            measured.append(costs)
            tokens.append(real)
    except NetpipeError as error:
        raise click.ClickException(str(error)) from error
    table = Table("stage", "ms a batch", "M tokens a CPU second", title=this_host().cpu)
    for name in measured[0]:
        cpu_s = median(costs[name] for costs in measured[_WARM_UP:])
        table.add_row(name, f"{1e3 * cpu_s:.2f}", f"{median(tokens) / cpu_s / 1e6:.1f}")
    Console().print(table)


def _measure_costs(bench: Bench) -> tuple[dict[str, float], int]:
    """Return the CPU seconds of each stage for one batch, and its real tokens."""
    room = LENGTH + 1
    costs: dict[str, float] = {}
    rows = _time(costs, "read the rows", bench.read)
    bench = replace(bench, rows=rows)
    contexts = _time(costs, "draw contexts", bench.draw)
    cuts = _time(costs, "cut them", lambda: cut(contexts, SEQUENCES, room))
    left = contexts.pick(np.arange(len(cuts.sizes)), cuts.sizes)
    stream = _time(costs, "encode what is left", lambda: encode(left))
    _time(
        costs,
        "lay it out in sequences",
        lambda: sequences_of(stream.tokens, cuts.segments, stream.sizes, room=room),
    )
    sequences = _time(costs, "all of this after reading", bench.pack)
    batch = _time(costs, "widen to a batch", lambda: widen(sequences))
    _time(costs, "(copy the batch)", lambda: [array.copy() for array in batch.values()])
    _time(costs, "(send the sequences)", lambda: _send(sequences))
    _time(costs, "(send the batch)", lambda: _send(batch))
    return costs, int(sequences["segment_tokens"].sum())


def _time(costs: dict[str, float], name: str, stage: Callable[[], Any]) -> Any:
    started_s = time.process_time()
    done = stage()
    costs[name] = time.process_time() - started_s
    return done


def _send(arrays: Sequences) -> None:
    """Pickle arrays into a pipe and out of it."""
    receiver, sender = Pipe(duplex=False)
    thread = Thread(target=sender.send, args=(arrays,))
    thread.start()
    receiver.recv()
    thread.join()
    receiver.close()
    sender.close()


if __name__ == "__main__":
    main()
