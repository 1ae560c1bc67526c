"""A prediction held against the same change, made in the same run. Pure, over turns."""

from netpipe.diagnosis.diagnosis import Verification, scaled
from netpipe.diagnosis.interventions import AS_IT_IS
from netpipe.diagnosis.schedule import NO_TIME
from netpipe.diagnosis.turns import SideBlocks
from netpipe.diagnosis.what_if import Change
from netpipe.results.measurement import Interval


def verified(
    change: Change, turns: SideBlocks, load_s: Interval
) -> tuple[Verification | None, str]:
    """Compare a prediction with what was measured.

    Both are ratios to the loader as it is, which is measured again in turns with the change: what
    the machine has become faster or slower by since is no fault of the prediction.

    Args:
        change: What was predicted, and made.
        turns: The loader as it is and with the change.
        load_s: Seconds a batch of the loader as it is, which the prediction was made from.

    Returns:
        The comparison, or why there is none.
    """
    if not (turns.has(change.says) and turns.has(AS_IT_IS)):
        why = turns.failures.get(change.says) or turns.failures.get(AS_IT_IS) or NO_TIME
        return None, f"{change.says} could not be tried: {why}"
    measured = turns.paired_interval(change.says, AS_IT_IS)
    factor = load_s.median / turns.interval(AS_IT_IS).median
    measured = scaled(measured, factor)
    return Verification.of(change.says, change.kind, change.prediction, measured, load_s), ""
