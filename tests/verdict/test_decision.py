"""Every verdict, its limits, and the order of the rules."""

from dataclasses import replace
from typing import Any

import pytest

from netpipe.results.measurement import PAUSES, BlockingLine, Finding, GpuHealth
from netpipe.verdict.decision import find_remarks, judge
from netpipe.verdict.document import measurement_document
from netpipe.verdict.kinds import Verdict, VerdictKind
from tests.measurements import CPU, EMULATED, GPU, make_measurement, spread
from tests.verdict.stalls import SERIAL, SYNCED, waits


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({}, "healthy"),
        ({"load_s": 0.0239}, "healthy"),
        ({"load_s": 0.0241}, "at-risk"),
        ({"load_s": 0.0314, "train_s": 0.0314}, "at-risk"),
        ({"load_s": 0.0316, "train_s": 0.0316}, "loader-bound"),
        ({"load_s": 0.040, "train_s": 0.0381}, "loader-bound"),
        ({"load_s": 0.040, "train_s": 0.0379}, "masked-loader-bound"),
        ({"load_s": 0.040, "train_s": 0.0549}, "loader-bound"),
        ({"load_s": 0.040, "train_s": 0.0551}, "no-overlap"),
        ({"load_s": 0.040, "train_s": 0.0700}, "no-overlap"),
        # A loader far slower than the step is too slow, not at risk.
        ({"load_s": 0.040, "step_s": 0.001, "train_s": 0.041}, "loader-bound"),
        ({"load_s": 0.060, "step_s": 0.005, "train_s": 0.0627}, "loader-bound"),
        ({"load_s": 0.060, "step_s": 0.005, "train_s": 0.0650}, "loader-bound"),
        ({"load_s": 0.044, "train_s": 0.059}, "no-overlap"),
        ({"load_s": 0.046, "train_s": 0.061}, "loader-bound"),
        ({"load_s": 0.060, "step_s": 0.005, "train_s": 0.0651, **SYNCED}, "forced-sync"),
        # Stalls, from the smallest that counts.
        ({"train_s": 0.0314}, "healthy"),
        ({"train_s": 0.0316}, "unexplained"),
        ({"train_s": 0.0349}, "unexplained"),
        ({"train_s": 0.0351}, "no-overlap"),
        # Copies must explain at least half of the stall.
        ({"train_s": 0.0330, "transfer_s": 0.0314}, "unexplained"),
        ({"train_s": 0.0330, "transfer_s": 0.0316}, "transfer-bound"),
        ({"train_s": 0.036, "transfer_s": 0.0329}, "no-overlap"),
        ({"train_s": 0.036, "transfer_s": 0.0331}, "transfer-bound"),
        ({"train_s": 0.036, "shadow_s": 0.0314}, "no-overlap"),
        ({"train_s": 0.036, "shadow_s": 0.0316}, "contention"),
        ({"train_s": 0.036, "worst_tenth_fraction": 0.49}, "no-overlap"),
        ({"train_s": 0.036, "worst_tenth_fraction": 0.50}, "jitter"),
        ({"train_s": 0.0302, "worst_tenth_fraction": 0.9}, "healthy"),
        # Forced syncs: frequent and costly enough, and seen by a probe that can be trusted.
        ({**SERIAL, **SYNCED}, "forced-sync"),
        ({**SERIAL, "sync_probe_fraction": 0.41}, "forced-sync"),
        ({**SERIAL, "sync_probe_fraction": 0.39}, "no-overlap"),
        ({**SERIAL, **SYNCED, "sync_probe_idle_fraction": 0.20}, "forced-sync"),
        ({**SERIAL, **SYNCED, "sync_probe_idle_fraction": 0.21}, "no-overlap"),
        ({**SYNCED, "train_s": 0.0314}, "healthy"),
        # A sync also exposes the loop's own work. If it is longer than a step, it is the cause.
        ({"load_s": 0.001, **SERIAL, **SYNCED, "host_s": 0.0029}, "no-overlap"),
        ({"load_s": 0.001, **SERIAL, **SYNCED, "host_s": 0.0031}, "forced-sync"),
        ({"train_s": 0.031, **SYNCED, "host_s": 0.031}, "healthy"),
        ({"train_s": 0.050, **SYNCED, "host_s": 0.0299}, "forced-sync"),
        ({"train_s": 0.050, **SYNCED, "host_s": 0.0301}, "host-bound"),
        ({"train_s": 0.058, **SYNCED, "host_s": 0.036, "synced_s": 0.037}, "forced-sync"),
        # A sync also costs the time to wake up for the next step.
        ({"load_s": 0.001, "train_s": 0.036, **SYNCED, "synced_s": 0.0317}, "no-overlap"),
        ({"load_s": 0.001, "train_s": 0.036, **SYNCED, "synced_s": 0.0321}, "forced-sync"),
        # If loading and the loop's own work explain all of R, nothing waits for the device.
        ({"train_s": 0.040, **SYNCED, "host_s": 0.028, "wait_s": waits(0.0)}, "host-bound"),
        ({"train_s": 0.044, **SYNCED, "host_s": 0.028, "wait_s": waits(0.0)}, "forced-sync"),
        ({"train_s": 0.044, **SYNCED, "host_s": 0.028, "wait_s": waits(0.002)}, "host-bound"),
        (
            {
                "load_s": 0.027,
                "train_s": 0.0327,
                "sync_probe_fraction": 0.1,
                "host_s": 0.0001,
                "wait_s": waits(0.027),
            },
            "forced-sync",
        ),
        # The loop's work is the cause if work and waits exceed the step, and work is half of E.
        ({"train_s": 0.042, "host_s": 0.032, "wait_s": waits(0.0)}, "host-bound"),
        ({"train_s": 0.042, "host_s": 0.031, "wait_s": waits(0.0)}, "no-overlap"),
        ({"train_s": 0.042, "host_s": 0.022, "wait_s": waits(0.010)}, "host-bound"),
        ({"train_s": 0.042, "host_s": 0.021, "wait_s": waits(0.010)}, "no-overlap"),
        ({"train_s": 0.042, "host_s": 0.005, "wait_s": waits(0.030)}, "no-overlap"),
        ({"train_s": 0.042, "host_s": 0.007, "wait_s": waits(0.030)}, "host-bound"),
        ({"train_s": 0.031, "host_s": 0.040}, "healthy"),
        ({"train_s": 0.036, "host_s": 0.004, "shadow_s": 0.036}, "contention"),
        ({"train_s": 0.036, "host_s": 0.004, "transfer_s": 0.036}, "transfer-bound"),
        # Compilations count if they do not stop.
        ({"compiled": (3, 1, 1, 1, 0, 0, 0, 0, 1)}, "recompiling"),
        ({"compiled": (3, 1, 1, 0, 0, 0, 0, 0, 1)}, "healthy"),
        ({"compiled": (3, 1, 1, 1, 1, 1, 1, 1, 0)}, "healthy"),
        # Too little evidence.
        ({"rounds": 3}, "healthy"),
        ({"rounds": 2}, "inconclusive"),
        ({"drained": False}, "inconclusive"),
        ({"batch_bytes": 1}, "healthy"),
        ({"batch_bytes": 0}, "inconclusive"),
        ({"load_s": spread(0.0230, 0.0235, 0.0245)}, "inconclusive"),
        ({"load_s": spread(0.0245, 0.0246, 0.0247)}, "at-risk"),
        ({"load_s": spread(0.0305, 0.0312, 0.0320)}, "inconclusive"),
        ({"load_s": spread(0.0250, 0.0275, 0.0304)}, "at-risk"),
        # The interval is wide, but lies between the limits.
        ({"load_s": spread(0.0250, 0.0275, 0.0312)}, "at-risk"),
        ({"load_s": spread(0.0250, 0.0275, 0.0316)}, "inconclusive"),
        ({"load_s": spread(0.0080, 0.0100, 0.0200)}, "healthy"),
        # R is not in doubt if the loader is certainly too slow.
        ({"load_s": 0.040, "train_s": spread(0.039, 0.044, 0.050)}, "loader-bound"),
        ({"load_s": 0.040, "train_s": spread(0.039, 0.056, 0.060)}, "inconclusive"),
        # Taking turns costs less than the slow loader.
        (
            {
                "load_s": 0.024,
                "step_s": 0.005,
                "train_s": spread(0.023, 0.027, 0.029),
                "sync_probe_fraction": 0.1,
            },
            "loader-bound",
        ),
        # The at-risk limit does not matter if training stalls for another reason.
        ({"load_s": spread(0.0200, 0.0240, 0.0310), "train_s": 0.045}, "no-overlap"),
        ({"load_s": spread(0.0200, 0.0240, 0.0320), "train_s": 0.045}, "inconclusive"),
        (
            {
                "load_s": spread(0.0100, 0.0200, 0.0310),
                "train_s": 0.045,
                "worst_tenth_fraction": 0.9,
            },
            "jitter",
        ),
        # Pauses change the mean of R, however uncertain the load time is.
        (
            {
                "load_s": spread(0.0200, 0.0240, 0.0320),
                "train_s": 0.045,
                "worst_tenth_fraction": 0.9,
            },
            "jitter",
        ),
        ({"train_s": spread(0.0300, 0.0314, 0.0400)}, "healthy"),
        ({"train_s": spread(0.0300, 0.0316, 0.0400)}, "inconclusive"),
        ({"train_s": spread(0.0314, 0.0360, 0.0360)}, "inconclusive"),
        ({"train_s": spread(0.0316, 0.0360, 0.0360)}, "no-overlap"),
    ],
)
def test_a_measurement_has_its_verdict(changed: dict[str, Any], kind: str) -> None:
    """Every kind is reached, and beside each limit the verdict is another one."""
    verdict = judge(make_measurement(**changed))
    assert verdict.kind == kind
    assert verdict.message.startswith(f"{kind}: ")
    assert verdict.next
    assert all(verdict.evidence)


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"rounds": 1, "compiled": 11}, "recompiling"),
        ({"batch_bytes": 0, "compiled": 11}, "recompiling"),
        ({"rounds": 2, "losses_are_finite": False, **SYNCED}, "inconclusive"),
        ({"train_s": spread(0.030, 0.038, 0.038), **SYNCED}, "inconclusive"),
        ({"compiled": 11, **SERIAL, **SYNCED}, "recompiling"),
        ({"load_s": 0.040, "train_s": 0.056, **SYNCED}, "forced-sync"),
        ({**SERIAL, **SYNCED, "worst_tenth_fraction": 0.9, "shadow_s": 0.040}, "forced-sync"),
        ({"load_s": 0.040, "train_s": 0.050, "worst_tenth_fraction": 0.9}, "loader-bound"),
        ({**SERIAL, "worst_tenth_fraction": 0.9, "shadow_s": 0.040}, "jitter"),
        ({**SERIAL, "worst_tenth_fraction": 0.9, "host_s": 0.020}, "jitter"),
        ({**SERIAL, "host_s": 0.032, "shadow_s": 0.040}, "host-bound"),
        ({**SERIAL, "shadow_s": 0.040, "transfer_s": 0.040}, "transfer-bound"),
        ({**SERIAL, "host_s": 0.032, "transfer_s": 0.040}, "transfer-bound"),
        ({**SERIAL, "transfer_s": 0.040}, "transfer-bound"),
        ({"load_s": 0.027, "train_s": 0.045}, "no-overlap"),
        ({"load_s": 0.027, "train_s": 0.032}, "unexplained"),
        # A median beyond a limit proves nothing while the interval reaches below it.
        ({"load_s": spread(0.0313, 0.0316, 0.0318), "train_s": 0.0318}, "inconclusive"),
        ({"train_s": 0.036, "shadow_s": spread(0.0305, 0.040, 0.040)}, "no-overlap"),
        ({"train_s": 0.036, "transfer_s": spread(0.0305, 0.040, 0.040)}, "no-overlap"),
    ],
)
def test_the_first_rule_that_holds_decides(changed: dict[str, Any], kind: str) -> None:
    """If two kinds apply, the first in the protocol's order is the verdict."""
    assert judge(make_measurement(**changed)).kind == kind


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({}, "inconclusive"),
        ({"findings": ()}, "healthy"),
        ({"device": CPU}, "healthy"),
        ({"train_s": (*[0.030] * 6, *[0.034] * 3)}, "healthy"),
        ({"load_s": 0.040}, "loader-bound"),
    ],
)
def test_pauses_in_a_few_rounds_are_not_healthy(changed: dict[str, Any], kind: str) -> None:
    """Rare pauses show in the mean of R, not in its median."""
    pauses = (Finding(PAUSES, "3 of 200 batches came after a pause"),)
    paused = {"train_s": (*[0.030] * 6, *[0.045] * 3), "findings": pauses, **changed}
    verdict = judge(make_measurement(**paused))
    assert verdict.kind == kind
    assert ("R over the step is 1.17 in the mean" in verdict.message) is (kind == "inconclusive")


@pytest.mark.parametrize(("batches", "end"), [(1234, ", over 1,234 batches"), (0, "3.00")])
def test_health_says_how_much_was_watched(batches: int, end: str) -> None:
    """The message has the number of batches only if the document has it."""
    assert judge(make_measurement(watched_batches=batches)).message.endswith(end)


def test_ratios_are_taken_within_rounds() -> None:
    """A machine at half speed for some rounds does not change the verdict."""
    slow = (1.0, 1.0, 2.0, 1.0, 2.0, 2.0, 1.0, 2.0, 1.0)
    measurement = make_measurement(
        load_s=[0.010 * factor for factor in slow],
        step_s=[0.030 * factor for factor in slow],
        train_s=[0.0305 * factor for factor in slow],
    )
    assert judge(measurement).kind == "healthy"


@pytest.mark.parametrize("device", [CPU, GPU, EMULATED])
def test_contention_is_fine_where_the_cores_are_shared(device: Any) -> None:
    """On a CPU device contention is reported and passes; on other devices it fails."""
    measurement = make_measurement(device=device, train_s=0.036, shadow_s=0.040)
    verdict = judge(measurement)
    assert verdict.kind == "contention"
    assert verdict.passes(measurement) is (device is CPU)


def test_a_stall_on_shared_cores_is_contention_without_more_proof() -> None:
    """An unexplained stall on a CPU device means that the loader and the step share cores."""
    changed: dict[str, Any] = {"train_s": 0.036, "device": CPU}
    assert judge(make_measurement(**changed)).kind == "contention"
    assert judge(make_measurement(**{**changed, "device": GPU})).kind == "no-overlap"


@pytest.mark.parametrize(
    ("changed", "apart", "shared"),
    [
        # A wide R alone decides nothing there, because any other program can delay steps.
        ({"train_s": spread(0.0305, 0.036, 0.036)}, "inconclusive", "inconclusive"),
        (
            {"train_s": spread(0.0305, 0.036, 0.036), "shadow_s": spread(0.030, 0.032, 0.038)},
            "inconclusive",
            "contention",
        ),
        (
            {"train_s": spread(0.0305, 0.036, 0.036), "shadow_s": 0.034},
            "inconclusive",
            "contention",
        ),
        (
            {"train_s": spread(0.0305, 0.0312, 0.036), "shadow_s": spread(0.030, 0.032, 0.038)},
            "healthy",
            "healthy",
        ),
        ({"train_s": 0.036, "worst_tenth_fraction": 0.9}, "jitter", "contention"),
        # A loader slower than the step is not contention, even if they take turns.
        ({"load_s": 0.040, "train_s": 0.070}, "no-overlap", "loader-bound"),
    ],
)
def test_shared_cores_have_their_own_verdicts(
    changed: dict[str, Any], apart: str, shared: str
) -> None:
    """Evidence that decides on a separate device may prove nothing on a CPU device."""
    for device, kind in ((GPU, apart), (EMULATED, apart), (CPU, shared)):
        assert judge(make_measurement(**changed, device=device)).kind == kind


TIME, NAMED = "a larger budget", "what the message names"


@pytest.mark.parametrize(
    ("changed", "reason", "way_out"),
    [
        ({"rounds": 2}, "only 2 rounds", TIME),
        ({"rounds": 1}, "only 1 round ", TIME),
        ({"rounds": 2, "findings": (Finding("loader-ended", "it ended"),)}, "it ended", NAMED),
        ({"batch_bytes": 0}, "empty", NAMED),
        ({"losses_are_finite": False}, "NaN or infinite", NAMED),
        ({"gpu": GpuHealth((1980.0,), (71.0,), 0, (), (4711, 4712))}, "4711, 4712", NAMED),
        (
            {"gpu": GpuHealth((990.0,), (91.0,), 2, ("HW thermal slowdown",), ())},
            "2 of 9 rounds: HW thermal slowdown",
            NAMED,
        ),
        ({"drained": False}, "drained", NAMED),
        ({"drained": False, "epoch_batches": 46}, "an epoch of 46 batches", NAMED),
        ({"within_epochs": False, "epoch_batches": 4}, "4 batches", NAMED),
        ({"train_s": spread(0.030, 0.036, 0.039)}, "R is 1.20 (1.00 to 1.30)", TIME),
        (
            {"load_s": spread(0.030, 0.033, 0.036), "train_s": 0.036},
            "L over the step is 1.10 (1.00 to 1.20)",
            TIME,
        ),
        ({"load_s": spread(0.020, 0.030, 0.040), "train_s": 0.040}, "30 ms (20 to 40 ms)", TIME),
        (
            {"load_s": spread(0.010, 0.042, 0.412), "busy_elsewhere_fraction": 0.49},
            "42 ms (10 to 412 ms)",
            TIME,
        ),
        # A storage that refuses requests stays undecided beside such programs.
        (
            {"load_s": spread(0.010, 0.042, 0.412), "busy_elsewhere_fraction": 0.9},
            "42 ms (10 to 412 ms)",
            "use a less busy machine, because other programs took 90.0% of the CPU time",
        ),
        (
            {"train_s": spread(0.030, 0.036, 0.039), "busy_elsewhere_fraction": 0.5},
            "R is 1.20",
            "other programs took 50.0% of the CPU time",
        ),
        ({"drained": False, "busy_elsewhere_fraction": 0.9}, "drained", NAMED),
    ],
)
def test_an_inconclusive_verdict_has_its_reason(
    changed: dict[str, Any], reason: str, way_out: str
) -> None:
    """The reason has the figures, and more time is advised only if it helps."""
    verdict = judge(make_measurement(**changed))
    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert reason in verdict.message
    assert way_out in verdict.next


@pytest.mark.parametrize(
    ("changed", "passes"),
    [
        ({}, True),
        ({"load_s": 0.027}, True),
        ({"load_s": 0.040, "train_s": 0.040}, False),
        ({"load_s": 0.040, "train_s": 0.035}, False),
        ({**SERIAL, **SYNCED}, False),
        ({"compiled": 1}, False),
        ({"rounds": 2}, False),
        ({"batch_bytes": 0}, False),
    ],
)
def test_only_fine_verdicts_pass(changed: dict[str, Any], passes: bool) -> None:
    """Healthy and at-risk runs pass on every device; all others fail, inconclusive ones too."""
    for device in (GPU, CPU, EMULATED):
        measurement = make_measurement(**changed, device=device)
        assert judge(measurement).passes(measurement) is passes


def test_a_healthy_gpu_is_no_doubt() -> None:
    """Clocks and temperatures alone raise no doubt; throttling and other processes do."""
    gpu = GpuHealth((1980.0,) * 9, (60.0,) * 9, 0, (), ())
    assert judge(make_measurement(gpu=gpu)).kind == "healthy"


def test_a_hidden_slow_loader_says_when_it_would_show() -> None:
    """With B buffered batches, a loader falls back by 1 - S0/L a step: n0 = B / (1 - S0/L)."""
    hidden = make_measurement(load_s=0.040, train_s=0.030, buffered_batches=1000.0)
    assert judge(hidden).kind == "masked-loader-bound"
    assert "step 4000" in judge(hidden).message
    unknown = replace(hidden, buffered_batches=None)
    assert "for a while" in judge(unknown).message


def test_a_stall_without_variations_is_still_named() -> None:
    """The evidence says which of S_sync, S1 and S2 were not measured."""
    full = make_measurement(
        train_s=0.036, step_synced_s=None, step_shadow_s=None, step_transfer_s=None
    )
    none = {"step_synced_s": (), "step_shadow_s": (), "step_transfer_s": ()}
    bare = replace(full, rounds=replace(full.rounds, **none))
    verdict = judge(bare)
    assert verdict.kind == "no-overlap"
    missing = [figure.split()[0] for figure in verdict.evidence if "not measured" in figure]
    assert missing == ["S_sync", "S1", "S2"]


# An H100 adds the gradients of equal tokens one after the other, and real tokens repeat.
SKEWED: dict[str, Any] = {
    "load_s": 0.001, "step_s": 0.124, "loaded_s": (0.180, 0.175, 0.185) * 3,
    "transfer_s": (0.181, 0.175, 0.184) * 3, "train_s": (0.182, 0.178, 0.187) * 3,
}  # fmt: skip


def test_a_step_that_depends_on_its_data_is_not_bound_by_transfers() -> None:
    """A step that takes 1.45 times as long on real batches does so without any copy."""
    skewed = make_measurement(**SKEWED)
    verdict = judge(skewed)
    assert verdict.kind == "healthy"
    (remark,) = find_remarks(skewed, verdict)
    assert remark.name == "step-depends-on-data"
    assert "takes 1.45 (" in remark.message
    assert judge(make_measurement(**{**SKEWED, "loaded_s": None})).kind == "transfer-bound"


def test_copies_are_compared_with_steps_on_the_same_batches() -> None:
    """A copy that lengthens the step on real batches is the cause, whatever synthetic ones take."""
    copying = make_measurement(**{**SKEWED, "transfer_s": 0.230, "train_s": 0.231})
    assert judge(copying).kind == "transfer-bound"
    assert "to 1.28 (" in judge(copying).message


def test_a_loader_is_judged_by_the_step_on_its_own_batches() -> None:
    """A step that is faster on padded batches than on synthetic ones waits for the loader."""
    padded = make_measurement(load_s=0.025, step_s=0.030, loaded_s=0.015, train_s=0.025)
    assert judge(padded).kind == "loader-bound"
    assert "the step 15 ms" in judge(padded).message
    assert [each.name for each in find_remarks(padded, judge(padded))] == ["step-depends-on-data"]


def test_compilations_that_stop_are_remarked_on() -> None:
    """A few compilations are a remark; if they are the verdict, there is no remark."""
    few = make_measurement(compiled=(2, 0, 0, 0, 0, 0, 0, 0, 0))
    assert [remark.name for remark in find_remarks(few, judge(few))] == ["compilations"]
    all_along = make_measurement(compiled=2)
    assert find_remarks(all_along, judge(all_along)) == ()


def test_work_of_the_loop_is_contention_where_cores_are_shared() -> None:
    """On a CPU device a stall without a sync is contention, whatever the loop does."""
    changed: dict[str, Any] = {"train_s": 0.042, "host_s": 0.036}
    assert judge(make_measurement(**changed, device=CPU)).kind == "contention"
    assert judge(make_measurement(**changed, device=GPU)).kind == "host-bound"


def test_cheap_syncs_are_remarked_on_only_when_healthy() -> None:
    """Cheap syncs are a remark only where training does not wait."""
    measurement = make_measurement(train_s=0.080, **SYNCED)
    verdict = judge(measurement)
    assert verdict.kind == "no-overlap"
    assert find_remarks(measurement, verdict) == ()


def test_syncs_that_cost_little_are_remarked_on() -> None:
    """A healthy loop with cheap syncs has a remark; a forced-sync verdict has none."""
    healthy = make_measurement(**SYNCED)
    stalled = make_measurement(**SERIAL, **SYNCED)
    assert [remark.name for remark in find_remarks(healthy, judge(healthy))] == ["forced-sync"]
    assert find_remarks(stalled, judge(stalled)) == ()


@pytest.mark.parametrize("outlier_s", [0.030, 0.060])
def test_one_quiet_round_does_not_make_shared_cores_healthy(outlier_s: float) -> None:
    """With six rounds, one outlier makes an interval contain everything."""
    rounds_s = (0.042, 0.043, 0.044, 0.045, 0.046, outlier_s)
    cores: dict[str, Any] = {"rounds": 6, "device": CPU, "train_s": rounds_s}
    verdict = judge(make_measurement(**cores, shadow_s=rounds_s))
    assert verdict.kind == "contention"
    assert ("seem to slow" in verdict.message) is (outlier_s == 0.030)
    unsure = judge(make_measurement(**cores))
    assert unsure.kind == ("inconclusive" if outlier_s == 0.030 else "contention")


def test_syncs_are_remarked_on_beside_contention_that_passes() -> None:
    """On a CPU device, where contention passes, a loop that waits for results is still named."""
    train_s = spread(0.0305, 0.036, 0.036)
    measurement = make_measurement(device=CPU, train_s=train_s, shadow_s=0.036, **SYNCED)
    verdict = judge(measurement)
    assert verdict.kind == "contention"
    assert [remark.name for remark in find_remarks(measurement, verdict)] == ["forced-sync"]
    assert "fewer workers" in verdict.next
    assert "; read metrics a step late" in verdict.next


def test_the_advice_beside_a_passing_verdict_names_the_sync() -> None:
    """A healthy loop that reads every loss is told which line to change."""
    line = BlockingLine("train.py", 12, "float(loss)", 1.0, 0.0)
    verdict = judge(make_measurement(**SYNCED, blocking_lines=(line,)))
    assert verdict.kind == "healthy"
    late = "read metrics a step late, or every n steps, at train.py:12 `float(loss)`"
    assert verdict.next == late
    assert judge(make_measurement()).next == "nothing"


@pytest.mark.parametrize("load_s", [0.008, 0.060])
def test_an_undecided_stall_is_part_of_the_verdict(load_s: float) -> None:
    """On a CPU device the message says if R was not judged, and the advice is not "nothing"."""
    wide: dict[str, Any] = {"load_s": load_s, "step_s": 0.070, "device": CPU}

    def judge_training(train_s: Any) -> Verdict:
        verdict = judge(make_measurement(**wide, train_s=train_s))
        assert verdict.kind == ("healthy" if load_s < 0.05 else "at-risk")
        return verdict

    undecided = judge_training(spread(0.070, 0.072, 0.080))
    assert "whether training stalls is open: R is 1.03 (1.00 to 1.14)" in undecided.message
    assert undecided.next != "nothing"
    assert "open" not in judge_training(spread(0.070, 0.071, 0.072)).message


@pytest.mark.parametrize(("busy", "names"), [(0.05, []), (0.06, ["busy-host"])])
def test_a_busy_host_is_remarked_on(busy: float, names: list[str]) -> None:
    """Other programs that took more than 5% of the CPU time are mentioned."""
    measurement = make_measurement(busy_elsewhere_fraction=busy)
    assert [remark.name for remark in find_remarks(measurement, judge(measurement))] == names


@pytest.mark.parametrize("name", ["growth-not-judged", "slow-close"])
def test_what_was_not_checked_is_only_in_the_document(name: str) -> None:
    """The user cannot act on it, and a limit on growth is inconclusive anyway."""
    measurement = make_measurement(findings=(Finding(name, "not checked"),))
    assert find_remarks(measurement, judge(measurement)) == ()
    (listed,) = measurement_document(measurement, judge(measurement))["findings"]
    assert listed["name"] == name


def test_findings_of_the_protocol_come_first() -> None:
    """Findings of the protocol are kept before the remarks."""
    seen = Finding("loader-restarted", "twice")
    measurement = make_measurement(findings=(seen,), busy_elsewhere_fraction=0.5)
    found = find_remarks(measurement, judge(measurement))
    assert found[0] == seen
    assert [remark.name for remark in found[1:]] == ["busy-host"]
