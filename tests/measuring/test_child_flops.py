"""The sources of a step's FLOPs, and the emulated accelerator that a session makes."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from netpipe.errors import MisuseError
from netpipe.jobs.targets import Factories
from netpipe.measuring.measure_job import device_and_subject
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.measuring.training.emulated_step import EmulatedStep
from netpipe.results.measurement import Device
from tests.jobs.session_targets import tiny_loader


class StepFactory:
    """A step factory that knows its FLOPs, as a number or counted on demand."""

    def __init__(self, flops_per_step: float | Callable[[], float]) -> None:
        self.flops_per_step = flops_per_step

    def __call__(self) -> Any:
        """Fail: a session of an emulated accelerator never runs it."""
        raise AssertionError("made")


def device(accelerator: str, **given: Any) -> Device:
    """Return the device of a session with these FLOPs; `flag` goes into the request."""
    request = MeasureRequest(
        accelerator=accelerator, flops_per_step=given.pop("flag", None), mfu=0.5
    )
    device_of, _ = device_and_subject(request, Factories(tiny_loader, **given))
    return device_of(["h100"])


@pytest.mark.parametrize(
    ("given", "tflop"),
    [
        ({"step": StepFactory(1e12)}, 1),
        ({"step": StepFactory(lambda: 1e12)}, 1),
        ({"flops_per_step": 2e12}, 2),
        ({"flops_per_step": lambda: 2e12, "step": StepFactory(1e12)}, 2),
        ({"flag": 3e12}, 3),
        ({"flag": 3e12, "flops_per_step": 2e12, "step": StepFactory(1e12)}, 3),
    ],
    ids=["attribute", "callable", "fixture", "fixture-first", "flag", "flag-first"],
)
def test_the_flag_goes_before_the_fixture_before_the_step(
    given: dict[str, Any], tflop: float
) -> None:
    """The first one given counts."""
    found = device("emulated:h100", **given)
    assert (found.key, found.emulated) == ("emulated-h100-x1", True)
    assert re.fullmatch(rf"emulated:h100, {tflop} TFLOP .* 0\.5", found.kind)


@pytest.mark.parametrize("given", [{}, {"step": lambda: None}])
def test_a_name_needs_flops(given: dict[str, Any]) -> None:
    """Without FLOPs the session ends with a way out."""
    with pytest.raises(MisuseError, match=r"emulated:h100.*FLOPs"):
        device("emulated:h100", **given)


def test_a_step_time_needs_none() -> None:
    """The FLOPs are not counted then."""
    with_none = device("emulated:5ms@2GB/s", step=StepFactory(lambda: 1 / 0))
    assert with_none == Device("emulated-5ms-2gb-s", "emulated:5ms@2GB/s", "emulated", 1)


def test_the_step_takes_the_time_and_copies_at_the_bandwidth() -> None:
    """A step takes FLOPs / (8 x peak x MFU), and a batch takes bytes / bandwidth."""
    request = MeasureRequest(accelerator="emulated:8xh100@2GB/s", flops_per_step=7.912e12, mfu=0.5)
    device_of, subject = device_and_subject(request, Factories(tiny_loader))
    assert device_of(["h100"]).count == 8
    assert subject.step is not None
    _, step = subject.step()
    assert isinstance(step, EmulatedStep)
    assert step._engines.dispatch(0, 0) == pytest.approx(2e6)
    assert step._engines.dispatch(0, 20_000_000) == pytest.approx(10e6 + 2e6)
