"""The needs of each accelerator."""

import pytest

from netpipe.device.accelerators import names_with_peak
from netpipe.diagnosis.diagnose import list_needs
from netpipe.diagnosis.diagnosis import Need
from tests.diagnosis.examples import findings, stage

FLOPS, MFU = 4e12, 0.4


def of(accelerator: str, **found: object) -> Need:
    """Return the need of an accelerator."""
    (need,) = (
        need
        for need in list_needs(findings(**found), FLOPS, MFU)
        if need.accelerator == accelerator
    )
    return need


def test_every_accelerator_with_a_peak_is_listed() -> None:
    """The slowest comes first; without the FLOPs of a step nothing is known."""
    found = list_needs(findings(), FLOPS, MFU)
    assert {need.accelerator for need in found} == set(names_with_peak())
    assert list_needs(findings(), None, MFU) == ()
    assert [need.step_s for need in found] == sorted((need.step_s for need in found), reverse=True)


def test_a_step_takes_its_flops_at_a_part_of_the_peak() -> None:
    """4 TFLOP at two fifths of 989 TFLOP/s take 10.1 ms."""
    need = of("h200")
    assert need.step_s == pytest.approx(4e12 / (989e12 * 0.4))
    assert need.batches_per_s == pytest.approx(1 / need.step_s)
    assert need.headroom == pytest.approx(need.step_s / 0.020)
    assert need.cores == pytest.approx(0.042 / need.step_s)


def test_workers_share_the_time_of_a_batch() -> None:
    """A batch occupies workers for 40 ms, and comes every 10.1 ms at four fifths of their time."""
    assert of("h200").workers == 5


def test_other_stages_need_no_worker() -> None:
    """Only stages in workers occupy them, but at least as long as they take now."""
    behind = (stage(s_per_batch=0.030), stage("Batch", 0.100, section="trainer"))
    assert of("h200", stages=behind, load_s_per_batch=findings().load_s_per_batch).workers == 5
    light = (stage(s_per_batch=0.001),)
    assert of("h200", stages=light).workers == 5


def test_without_workers_all_stages_count() -> None:
    """All stages would move to workers: 0.13 s for each batch."""
    stages = (stage(s_per_batch=0.030, section="trainer"), stage("B", 0.100, section="threads"))
    assert of("h200", stages=stages, workers=0).workers == 17
