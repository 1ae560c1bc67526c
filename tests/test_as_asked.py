"""The notes of the first users, and the tests that cover them.

Each row of `KEPT` quotes the notes and names the tests that fail if it no longer holds; rows
without another test have one below. docs/troubleshooting.md has the differences and their reasons.
"""

import ast
import inspect
from functools import cache

import pytest
from click.testing import CliRunner

from netpipe.cli import main
from netpipe.workload.trainer import iterators
from tests.root_process import ROOT
from tests.test_gpu_models import FAMILIES
from tests.workflows import scripts, tox_flags

# A quote of the notes: the tests that cover it.
KEPT = {
    "pytest perf_tests --benchmark-compare": (
        "perf_tests/test_loading.py::test_load_time",
        "tests/plugin/test_regression.py::test_a_regression_fails_its_test",
    ),
    "loading below the synthetic step": (
        "perf_tests/test_loading.py::test_loading_stays_below_the_step",
        "tests/test_testing.py::test_loading_must_leave_its_headroom",
        "tests/test_acceptance.py::test_a_slow_sampler_fails_loading",
    ),
    "mp_prefetch order": (
        "perf_tests/test_order.py::test_order",
        "tests/test_acceptance_order.py::test_each_disorder_fails_with_its_rule",
        "tests/linting/rules/test_placement.py::test_a_batch_after_mp_prefetch",
    ),
    "xdist": (
        "tests/plugin/test_xdist.py::test_timed_tests_run_alone",
        "tests/plugin/test_benchmark_flags.py::test_a_regression_fails_beside_workers",
    ),
    "tox -e a100 on another device": (
        "tests/plugin/test_device.py::test_the_wrong_device_is_a_usage_error",
        "tests/test_gpu_models.py::test_every_model_has_a_tox_environment",
    ),
    "baselines for each GPU type": (
        "tests/plugin/test_missing.py::test_a_first_baseline_takes_one_command",
        "tests/plugin/test_regression.py::test_another_device_has_another_baseline",
    ),
    "exit codes": (
        "tests/test_cli.py::test_the_verdict_decides_the_exit_code",
        "tests/plugin/test_missing.py::test_no_baseline_passes_or_fails",
    ),
    "GPU waiting for data; gap in utilisation": (
        "tests/verdict/test_decision.py::test_a_measurement_has_its_verdict",
        "tests/measuring/training/test_kept_trace.py::test_the_device_works_from_the_call_to_the_end",
    ),
    "os.sched_getaffinity(0)": (
        "tests/device/test_machine.py::test_limits_are_apart_from_what_the_machine_has",
    ),
    "ulimit -n 4096": (
        "tests/device/test_machine.py::test_a_limit_of_open_files_is_judged_by_the_cores",
        "tests/measuring/test_footprint_log.py::test_open_files_that_grow_are_found",
    ),
    "several GPUs, JAX mesh": (
        "tests/workload/trainer/test_iterators.py::test_training_gives_the_pipeline_s_batches_on_the_mesh",
        "tests/workload/trainer/test_two_processes.py::test_two_processes_are_killed_and_go_on",
    ),
    "Out of Memory": (
        "tests/throughput/test_worker_choice.py::test_a_candidate_above_the_budget_is_not_started",
        "tests/linting/rules/test_buffers.py::test_a_buffer_of_batches_is_a_warning",
        "tests/measuring/test_leaks.py::test_memory_that_grows_is_found_where_it_grows",
        "tests/jobs/test_grain_calls.py::test_too_little_memory_names_the_settings_to_lower",
    ),
    "no attribute 'mp_prefetch'": (
        "tests/jobs/test_grain_calls.py::test_a_call_that_grain_does_not_have_is_answered",
        "tests/jobs/test_grain_calls.py::test_a_setting_that_fails_at_the_first_batch_is_answered",
    ),
    "workers 12, buffer 32: about 4 GB": (
        "tests/linting/rules/test_buffers.py::test_the_buffers_of_workers_are_counted",
        "tests/linting/rules/test_buffers.py::test_a_data_loader_has_settings_of_other_names",
        "tests/linting/test_reads.py::test_lint_measures_a_batch_of_large_buffers",
    ),
    "a cache for 8, 16, 32 GB": (
        "tests/workload/trainer/test_network_config.py::test_impossible_values_are_refused_by_their_own_names",
        "tests/workload/trainer/test_worker_count.py::test_cores_and_memory_bound_the_workers",
    ),
    "Slow Initial Loading; slow epoch start": (
        "tests/measuring/test_protocol.py::test_a_slow_start_is_a_finding",
        "tests/diagnosis/experiments/test_start_up.py::test_slowness_counts_in_its_own_part",
    ),
    "Import Errors": (
        "tests/test_cli.py::test_a_missing_package_of_the_workload_is_named_with_its_extra",
        "tests/measuring/test_measure_job.py::test_a_failed_import_of_a_target_is_explained",
    ),
    "uneven steps": (
        "tests/measuring/test_pauses.py::test_a_fast_loader_with_rare_pauses_is_jitter",
    ),
    "migration guide": (
        "tests/test_documents.py::test_the_commands_for_symptoms_can_be_run",
    ),
    "pipeline_graph.svg; debug log": (
        "tests/workload/trainer/test_debug_log.py::test_debug_mode_tells_the_state_until_the_end",
    ),
    "every 60 seconds ... min/max/average ... bottleneck": (
        "tests/workload/trainer/test_debug_log.py::test_waits_for_batches_are_summed_up",
        "tests/workload/trainer/test_debug_log.py::test_the_bottleneck_is_the_stage_that_is_waited_for",
        "tests/workload/trainer/test_debug_log.py::test_a_hang_is_all_wait",
    ),
    "85.47% wait time on data source": (
        "tests/workload/trainer/test_debug_log.py::test_each_stage_has_its_line",
    ),
    "wait > 50%: increase workers": (
        "tests/verdict/test_worker_sizing.py::test_workers_follow_from_littles_law",
        "tests/diagnosis/test_what_if.py::test_the_first_useful_change_is_tried",
    ),
    "cProfile, jax.profiler.start_trace, TensorBoard": (
        "tests/test_cli_trace.py::test_the_trace_is_kept_in_a_folder_of_the_users",
        "tests/test_cli_diagnose.py::test_a_loader_is_diagnosed",
    ),
    "padding below 5%": (
        "tests/workload/test_pipeline.py::test_padding_is_bounded_in_every_batch",
    ),
    "16 workers for B200 with 8 CPUs": (
        "tests/linting/rules/test_workers.py::test_more_workers_than_cores_are_a_warning",
    ),
    "pick_performance_config": (
        "tests/linting/rules/test_workers.py::test_mp_prefetch_without_workers_is_a_warning",
    ),
    "use_multiprocessing=False": (
        "tests/workload/test_pipeline.py::test_workers_change_nothing",
        "tests/test_cli_throughput.py::test_lists_are_all_combinations",
    ),
    "print(loss), block_until_ready": (
        "tests/test_acceptance.py::test_a_loss_read_every_step_is_a_forced_sync",
        "tests/measuring/training/test_training_loop.py::test_a_loop_that_waits_for_every_loss_is_caught",
    ),
    "the loader alone against target_step_time": (
        "tests/device/test_emulated_names.py::test_an_accelerator_is_named_by_its_step_time",
        "tests/measuring/test_draining.py::test_a_drain_ends_when_the_buffers_are_empty",
    ),
    "tune worker_count": (
        "tests/throughput/test_worker_choice.py::test_workers_without_gain_are_not_chosen",
    ),
    "pre-process offline": ("tests/test_cli.py::test_prepare_takes_a_folder_of_parquet",),
    "eager load of all parquet files; batch size per host": (
        "tests/workload/sources/test_kept_rows.py::test_kept_rows_are_read_once",
        "tests/workload/trainer/test_worker_count.py::test_the_start_says_what_a_host_loads",
    ),
    "only 15% MFU; 52K to 200-400K tokens/s": (
        "tests/measuring/test_rates.py::test_mfu_is_over_the_peak_of_all_devices",
        "tests/measuring/test_rates.py::test_tokens_are_those_of_the_real_loop",
    ),
    "DatasetType.NETWORK, NetworkDataset": (
        "tests/workload/trainer/test_maxtext.py::test_the_type_and_its_settings_are_registered",
        "tests/workload/trainer/test_maxtext.py::test_training_on_other_batches_is_refused",
    ),
    "network_data_format: probe_chunks; files and globs": (
        "tests/workload/trainer/test_network_config.py::test_formats_have_the_names_of_their_loaders_too",
        "tests/workload/trainer/test_network_config.py::test_files_are_refused_with_the_folder_to_write",
    ),
    "grain_worker_count: -1; grain_ram_budget_mb: 16384": (
        "tests/workload/trainer/test_worker_count.py::test_the_number_is_chosen_from_a_measured_worker",
        "tests/workload/trainer/test_network_config.py::test_a_budget_for_workers_does_not_keep_rows",
    ),
}  # fmt: skip

DIFFERENCES = (
    "pyarrow", "gpt2", "TensorFlow", "100,000 tokenized", "512 or 1024", "a buffer of 100",
    "benchmark_data_loading.py", "`mp_prefetch` on MapDataset", "batches after `to_iter_dataset`",
    "`py_debug_mode`", "Modal", "wandb",
)  # fmt: skip


@cache
def find_tests(file: str) -> frozenset[str]:
    """Return the names of the tests that pytest collects from a file."""
    body = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
    functions = (node.name for node in body if isinstance(node, ast.FunctionDef))
    return frozenset(name for name in functions if name.startswith("test_"))


@pytest.mark.parametrize("asked", KEPT)
def test_what_was_asked_for_has_its_tests(asked: str) -> None:
    """Each kept wish of the notes has existing tests."""
    for node in KEPT[asked]:
        file, _, name = node.partition("::")
        assert name in find_tests(file), node


@pytest.mark.parametrize("device", FAMILIES)
def test_a_gpu_environment_is_a_gate(device: str) -> None:
    """A GPU environment checks its device, and fails if a result is missing or open."""
    words = " ".join(tox_flags(device, []))
    for flags in (
        "--benchmark-compare", f"--netpipe-device {device}", "--netpipe-missing fail",
        "--netpipe-inconclusive fail",
    ):  # fmt: skip
        assert flags in words


def test_the_gate_runs_in_gpu_ci() -> None:
    """The workflow of the GPU runners runs the environment of each, and keeps JUnit."""
    gate = next(script for script in scripts("gpu.yml") if "tox" in script)
    assert gate.startswith('pipx run tox -e "$DEVICE" -- ')
    assert "--junitxml=" in gate


@pytest.mark.parametrize("name", ["make_network_train_iterator", "make_network_eval_iterator"])
def test_a_trainer_makes_its_iterators_by_these_names(name: str) -> None:
    """Iterators take a configuration, a mesh and the loading processes, as in MaxText."""
    parameters = inspect.signature(getattr(iterators, name)).parameters.values()
    required = [each.name for each in parameters if each.default is each.empty]
    assert required == ["config", "mesh", "process_indices"]


def test_a_profiler_trace_is_an_option() -> None:
    """`measure` and `diagnose` can keep a profiler trace of some steps."""
    for command in ("measure", "diagnose"):
        assert "--trace" in CliRunner().invoke(main, [command, "--help"]).stdout


def test_a_dry_run_is_documented() -> None:
    """MaxText's synthetic data measure the step without loading."""
    assert "dataset_type=synthetic" in (ROOT / "docs" / "maxtext.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("asked", DIFFERENCES)
def test_a_difference_has_its_reason(asked: str) -> None:
    """The documents state each difference and its reason."""
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    lines = page.partition("## Differences from the first notes")[2].splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    (row,) = [cells for cells in rows if asked in cells[0]]
    assert all(cell.strip() for cell in row)
    assert len(row) == len(rows[0])
