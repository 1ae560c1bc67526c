"""`python -m perf_tests.studies.gpu.figures DIR`: the figures of stage 3 as tables in Markdown."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fixtures.targets import gpu_step, step
from netpipe.device.accelerators import peak_flops
from netpipe.results.units import format_percent, format_seconds


def format_steps(measurements: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a row for the real step, with its MFU, and one for the emulated step."""
    yield "| device | S0 | R | headroom | stall | MFU | verdict |"
    yield "|---|--:|--:|--:|--:|--:|---|"
    for each in measurements:
        device, step_s = each["device"], each["step_s"]["median"]
        target = step if device["platform"] == "cpu" else gpu_step
        peak = None if device["emulated"] else peak_flops(device["kind"])
        mfu = f"{target.flops_per_step / step_s / peak:.3f}" if peak else ""
        yield "| " + " | ".join([
            device["key"], format_seconds(step_s),
            format_seconds(each["train_s_per_step"]["median"]),
            f"{each['headroom']['median']:.2f}", format_percent(each["stall_fraction"]["median"]),
            mfu, each["verdict"]["kind"],
        ]) + " |"  # fmt: skip


def format_workers(combinations: list[Mapping[str, Any]], step_s: float) -> Iterator[str]:
    """Yield a row for each number of workers, with the headroom S0/L of a step of `step_s`."""
    yield "| workers | tokens/s | tokens per CPU second | headroom |"
    yield "|--:|--:|--:|--:|"
    for each in combinations:
        tokens, per_cpu, batches = (
            each[name]["median"] for name in ("tokens_per_s", "tokens_per_cpu_s", "batches_per_s")
        )
        yield f"| {each['workers']} | {tokens:,.0f} | {per_cpu:,.0f} | {batches * step_s:.2f} |"


def main(folder: Path) -> None:
    """Print both tables from the files of a stage."""

    def read(name: str) -> Any:
        return json.loads((folder / f"{name}.out").read_text("utf-8"))

    measurements = read("real-and-emulated")["measurements"]
    combinations = read("workers")["combinations"]
    step_s = measurements[0]["step_s"]["median"]
    lines = [*format_steps(measurements), "", *format_workers(combinations, step_s)]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
