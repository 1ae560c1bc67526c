"""A prediction held against the same change, made in the same run. Pure, over turns."""

from netpipe.diagnosis.diagnosis import Verified
from netpipe.diagnosis.interventions import AS_IT_IS
from netpipe.diagnosis.turns import Turns
from netpipe.diagnosis.what_if import Change
from netpipe.harness.measurement import Interval
from netpipe.harness.units import seconds


def verified(change: Change, turns: Turns, as_it_was_s: float) -> tuple[Verified | None, str]:
    """Compare a prediction with what was measured.

    A prediction is a ratio to the loader as it is; that is measured again beside the change, and
    what the machine has become faster or slower by since is no fault of the prediction.

    Args:
        change: What was predicted, and made.
        turns: The loader as it is and with the change.
        as_it_was_s: Seconds a batch of the loader as it is when the prediction was made.

    Returns:
        The comparison, or why there is none.
    """
    if not (turns.has(change.says) and turns.has(AS_IT_IS)):
        why = turns.failures.get(change.says) or turns.failures.get(AS_IT_IS) or "no time was left"
        return None, f"{change.says} could not be tried: {why}"
    before, measured = turns.interval(AS_IT_IS), turns.interval(change.says)
    predicted = _scaled(change.prediction, before.median / as_it_was_s)
    error = predicted.median / measured.median - 1
    says = (
        f"{change.says}: predicted {seconds(predicted.median)}, measured "
        f"{seconds(measured.median)} ({error:+.0%}) instead of {seconds(before.median)}"
    )
    return Verified(change.says, change.kind, predicted, measured, before, error, says), ""


def _scaled(interval: Interval, factor: float) -> Interval:
    return Interval(
        interval.median * factor, interval.low * factor, interval.high * factor, interval.n
    )
