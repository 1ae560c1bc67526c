"""The history of a metric in the comparable baselines."""

from dataclasses import replace
from typing import Any

from netpipe.results.measurement import Host, Measurement
from tests.plugin.project import Project
from tests.plugin.recorded import HOST, recorded


def history(project: Project) -> dict[str, list[float]]:
    """Return the history of each metric in the run's document."""
    project.compare("--netpipe-json", "run.json")
    document: dict[str, Any] = project.read_json("run.json")
    return {
        result["metric"] or result["quantity"]: [past["value"] for past in result["history"]]
        for result in document["comparisons"]
    }


def test_every_baseline_of_the_device_is_there(project: Project) -> None:
    """Each baseline has its name and the median over its sessions, the oldest first."""
    for ratio in (1.9, 2.0):
        project.record(recorded(load_cpu_ratio=ratio))
    assert history(project)["load_cpu_ratio"] == [1.9, 2.0]
    (first, _) = project.read_json("run.json")["comparisons"][0]["history"]
    assert first["baseline"] == "0001_first.json"
    assert first["recorded"]


def test_other_data_are_not_the_like(project: Project) -> None:
    """A baseline of another fingerprint is omitted."""
    project.record(replace(recorded(load_cpu_ratio=9.0), fingerprint="other data"))
    project.record(recorded(load_cpu_ratio=2.0))
    assert history(project)["load_cpu_ratio"] == [2.0]


def test_times_of_another_host_are_not_the_like(project: Project) -> None:
    """Ratios of the step to the loop are in the history, times are not."""
    project.has(
        """
        def test_load_time(netpipe_benchmark):
            netpipe_benchmark("train_s_per_step")
        """
    )
    project.record(on(Host("Other CPU", cores=64, memory_bytes=2**40)))
    project.record(on(HOST))
    found = history(project)
    assert len(found["train_s_per_step"]) == 1
    assert len(found["sync_probe_fraction"]) == 2


def on(host: Host) -> Measurement:
    """Return a measurement on a host."""
    return replace(recorded(), host=host)
