"""Places for things of directed graphs without a pipeline."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netpipe.linting.picture.layers import GAP_X, Thing, _spread, place


def thing(*inputs: int, width: float = 100, height: float = 40) -> Thing:
    """A thing with its axis in its middle."""
    return Thing(width / 2, width / 2, height, inputs)


def test_a_chain_is_straight() -> None:
    """Each stands right above the one that reads it, whatever their widths."""
    points = place([thing(1), thing(2, width=300), thing(width=50)]).points
    assert len({x for x, _ in points}) == 1
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)


def test_one_stands_in_the_middle_of_the_two_that_it_reads() -> None:
    """They keep their order and the gap between them."""
    places = place([thing(1, 2), thing(), thing()])
    (middle, _), (left, _), (right, _) = places.points
    assert right - left == 100 + GAP_X
    assert middle == pytest.approx((left + right) / 2)


def test_order_in_a_row_follows_those_that_read() -> None:
    """Ways do not cross where they need not."""
    places = place([thing(1, 2), thing(4), thing(3), thing(), thing()])
    assert places.points[1][0] < places.points[2][0]
    assert places.points[4][0] < places.points[3][0]


def test_a_way_past_a_row_has_a_lane() -> None:
    """It goes down beside the thing in that row."""
    places = place([thing(1, 2), thing(2), thing()])
    route = places.routes[0, 2]
    lane = {x for x, _ in route[1:3]}
    assert len(route) == 5
    assert len(lane) == 1
    assert abs(lane.pop() - places.points[1][0]) > 50


def test_what_is_on_top_stands_above_all_others() -> None:
    """And what reads it right below."""
    places = place([thing(1, 3), thing(2), thing(), thing(4), thing(5), thing()], on_top={2})
    heights = [y for _, y in places.points]
    assert heights[2] < min(heights[:2] + heights[3:])
    assert heights[1] == heights[5]


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(0, 100)), min_size=1, max_size=12))
def test_spread_keeps_order_and_distance(wanted_apart: list[tuple[float, float]]) -> None:
    """Whatever is wanted; and what is far enough apart already stays."""
    wanted = [position for position, _ in wanted_apart]
    apart = [distance for _, distance in wanted_apart[1:]]
    spread = list(_spread(wanted, apart))
    gaps = [right - left for left, right in pairwise(spread)]
    assert all(gap >= least - 1e-6 for gap, least in zip(gaps, apart, strict=True))
    assert sum(spread) == pytest.approx(sum(wanted), abs=1e-6)
    assert list(_spread(spread, apart)) == pytest.approx(spread, abs=1e-6)
