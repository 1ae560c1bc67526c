"""The job of one side of a duet: makes the loader and the step, and times blocks on request."""

from contextlib import ExitStack
from typing import Any, Final

from netpipe.clock import Clock
from netpipe.duets.block_timers import BlockTimer, LoadTimer, StepTimer, TrainTimer, block_seconds
from netpipe.duets.duet_request import BlockSize, DuetRequest
from netpipe.jobs.code_origin import check_origin
from netpipe.jobs.heartbeat import Watch
from netpipe.jobs.orders import open_channel, read_orders
from netpipe.jobs.targets import Factories
from netpipe.jobs.watchdog import Watchdog
from netpipe.measuring.footprint_log import FootprintLog
from netpipe.measuring.loader_puller import Puller, close_with_timeout
from netpipe.measuring.measure_job import device_and_subject
from netpipe.measuring.training.step_runner import StepRunner
from netpipe.measuring.training.training_loop import late_reading_loop

_WARM_UP_SHARE: Final = 0.2
_MAX_FILLING_S: Final = 10.0


def serve_blocks(request: DuetRequest, factories: Factories, closing: ExitStack) -> dict[str, Any]:
    """Time blocks of the loader and the step until the parent ends this process.

    `closing` closes the loaders.

    Raises:
        MisuseError: The code comes from the wrong place, or a factory returns something unsuitable.
    """
    with open_channel(request) as channel, Watchdog(request) as watch:
        timer, about = _make_timer(request, factories, closing, watch)
        # Check now, because the parent will end this process.
        check_origin(request.code_from, request.not_from)
        channel.send({**about, "size": tuple(timer.size)})
        watch.enter_phase("side by side with the other version", request.duet_s)
        for size in read_orders(channel, watch):
            channel.send(timer.time_block(BlockSize(*size)))
    return {"duet": {}}


def _make_timer(
    request: DuetRequest, factories: Factories, closing: ExitStack, watch: Watch
) -> tuple[BlockTimer, dict[str, Any]]:
    """Return a timer, and a description that the parent needs to compare the sides."""
    clock, block_s = Clock(), block_seconds(request.duet_s)
    about = {"fingerprint": factories.fingerprint, "shares_cores": False}
    footprints = FootprintLog(clock)
    watch.enter_phase("making the loader")
    puller = Puller(factories.loader, clock, watch)
    closing.callback(close_with_timeout, puller.close)
    if request.quantity == "load_s_per_batch":
        load_timer = LoadTimer(puller, clock, block_s, footprints)
        use = tuple(load_timer.core_use)
        return load_timer, {**about, "epoch_batches": puller.epoch_batches, "core_use": use}
    watch.enter_phase("making and warming up the step")
    device_of, subject = device_and_subject(request, factories)
    batches = [puller.first_batch, puller.pull()[0]]
    assert subject.step is not None
    stepper = StepRunner(subject.step, batches, clock, factories.synthetic)
    stepper.warm_up(_WARM_UP_SHARE * request.budget_s)
    device = device_of(stepper.devices)
    about["fingerprint"] = device.complete_fingerprint(factories.fingerprint)
    about["shares_cores"] = device.shares_host_cores
    if request.quantity == "step_s":
        puller.wait_for_full_buffers(_MAX_FILLING_S)  # The loader is idle from now on.
        return StepTimer(stepper, block_s), about
    loop = factories.loop or late_reading_loop
    train_timer = TrainTimer(puller, stepper, loop, block_s, watch)
    return train_timer, {**about, "epoch_batches": puller.epoch_batches}
