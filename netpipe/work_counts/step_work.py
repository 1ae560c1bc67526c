"""Count a step's work per batch, from the step itself and from XLA's analysis of it."""

from collections.abc import Sequence
from importlib.metadata import version

import jax

from netpipe.clock import Clock
from netpipe.device.emulated_names import Flops, count_flops
from netpipe.errors import describe_error
from netpipe.measuring.loader_puller import Batch
from netpipe.measuring.training.step_runner import BatchesFactory, StepFactory, StepRunner

_WARM_UP_S = 60.0


def describe_backend() -> str:
    """Return the jaxlib version and the kind of device, on which XLA's analysis depends."""
    return f"jaxlib {version('jaxlib')}, {jax.devices()[0].device_kind}"


def count_step_work(
    factory: StepFactory, batches: Sequence[Batch], synthetic: BatchesFactory | None, flops: Flops
) -> tuple[dict[str, float], dict[str, str]]:
    """Return a step's counts by kind, and the reason for each kind that could not be counted.

    The FLOPs come from `flops` if known, otherwise from XLA, which counts a loop's body only once.
    """
    runner = StepRunner(factory, batches, Clock(), synthetic)
    runner.warm_up(_WARM_UP_S)
    counts = {
        "step_kept_state_bytes": float(runner.kept_state_bytes),
        "step_compilations": float(runner.compilations()),
    }
    known_flops = count_flops(flops)
    try:
        compiled = runner.lower().compile()
        cost, memory = compiled.cost_analysis() or {}, compiled.memory_analysis()
        analysis = {
            "step_flops": cost.get("flops"),
            "step_accessed_bytes": cost.get("bytes accessed"),
            "step_temporary_bytes": memory and float(memory.temp_size_in_bytes),
        }
    except Exception as error:  # noqa: BLE001  # a step that is not a pure function may raise anything
        analysis = {}
        why = f"XLA cannot analyse the step: {describe_error(error).splitlines()[0]}"
    else:
        why = "XLA's analysis does not report it"
    if known_flops is not None:
        analysis["step_flops"] = known_flops
    found = {kind: amount for kind, amount in analysis.items() if amount is not None}
    kinds = ("step_flops", "step_accessed_bytes", "step_temporary_bytes")
    return {**counts, **found}, {kind: why for kind in kinds if kind not in found}
