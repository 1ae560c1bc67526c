"""Places for the things of a directed graph: in rows, each above those that read it.

Rows by the longest way to the last thing and order by barycentre (Sugiyama, Tagawa and Toda 1981,
"Methods for visual understanding of hierarchical system structures"), places in a row by isotonic
regression. A way that passes a row has a lane there, so no arrow crosses a thing.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import accumulate, pairwise
from statistics import fmean, median
from typing import Final

Point = tuple[float, float]

GAP_X: Final = 28.0
GAP_Y: Final = 28.0


@dataclass(frozen=True)
class Thing:
    """What takes a place.

    Attributes:
        left: Extent to the left of the axis on which its arrows start and end.
        right: Extent to the right of it.
        height: Its height.
        inputs: Numbers of the things that it reads.
    """

    left: float
    right: float
    height: float
    inputs: tuple[int, ...] = ()


_LANE: Final = Thing(4, 4, 0)


@dataclass(frozen=True)
class Places:
    """Where everything stands, in a frame that begins at 0, 0.

    Attributes:
        points: For each thing, the upper end of its axis.
        routes: For each thing (second) and one that reads it (first) the points of the way
            between them; from the first on, every second part of it runs between two rows.
        width: Of all together.
        height: Of all together.
    """

    points: tuple[Point, ...]
    routes: Mapping[tuple[int, int], tuple[Point, ...]]
    width: float
    height: float


def place(things: Sequence[Thing], on_top: Collection[int] = ()) -> Places:
    """Place things so that none touch and all ways lead down.

    Args:
        things: The first is read by none and stands lowest, all others are read. No cycles.
        on_top: Things without inputs that stand above all others.
    """
    grid = _grid(things, on_top)
    across, width = _across(grid)
    down = _down(grid)
    points = {cell: (across[cell], down[cell][1] - grid.cells[cell].height) for cell in across}
    routes = {}
    for (reader, read), way in grid.ways.items():
        lanes = (point for cell in way for point in _ends(across[cell], down[cell]))
        start, into = (across[read], down[read][1]), (across[reader], down[reader][0])
        routes[reader, read] = (start, *lanes, into, points[reader])
    return Places(tuple(points[one] for one in range(len(things))), routes, width, down[0][1])


def _ends(x: float, row: tuple[float, float]) -> Iterator[Point]:
    return ((x, y) for y in row)


# ---- Rows, and the order in them


@dataclass(frozen=True)
class _Grid:
    """Things and lanes in rows, the lowest row first.

    Attributes:
        cells: The things, then the lanes.
        rows: The numbers of the cells, from left to right.
        above: For each cell those in the next row that lead to it.
        ways: For each thing and one that reads it, the lanes between them from above.
    """

    cells: Sequence[Thing]
    rows: Sequence[Sequence[int]]
    above: Mapping[int, Sequence[int]]
    ways: Mapping[tuple[int, int], Sequence[int]]


def _grid(things: Sequence[Thing], on_top: Collection[int]) -> _Grid:
    levels = _levels(things, on_top)
    cells = list(things)
    above: dict[int, list[int]] = {one: [] for one in range(len(things))}
    ways = {}
    for reader, thing in enumerate(things):
        for read in dict.fromkeys(thing.inputs):
            lanes = list(range(len(cells), len(cells) + levels[read] - levels[reader] - 1))
            cells += [_LANE] * len(lanes)
            for lower, upper in pairwise([reader, *lanes, read]):
                above.setdefault(lower, []).append(upper)
            ways[reader, read] = lanes[::-1]
    return _Grid(cells, list(_ordered_rows(above)), above, ways)


def _levels(things: Sequence[Thing], on_top: Collection[int]) -> Sequence[int]:
    """Number each thing's row: above all that read it, and no higher than it must be.

    What reads only things on top stands right below them.
    """
    levels = [0] * len(things)
    inputs = {one: thing.inputs for one, thing in enumerate(things)}
    for reader in reversed(list(TopologicalSorter(inputs).static_order())):
        for read in things[reader].inputs:
            levels[read] = max(levels[read], levels[reader] + 1)
    if on_top:
        others = (level for one, level in enumerate(levels) if one not in on_top)
        top = max(others) + 1
        for one, thing in enumerate(things):
            if one in on_top:
                levels[one] = top
            elif thing.inputs and all(read in on_top for read in thing.inputs):
                levels[one] = top - 1
    return levels


def _ordered_rows(above: Mapping[int, Sequence[int]]) -> Iterator[Sequence[int]]:
    """Yield the rows from the lowest on, each cell as near as can be over those it leads to."""
    row: Sequence[int] = [0]
    while row:
        yield row
        readers: dict[int, list[int]] = {}
        for position, lower in enumerate(row):
            for upper in above[lower]:
                readers.setdefault(upper, []).append(position)
        row = sorted(readers, key=lambda one: fmean(readers[one]))


# ---- Coordinates


def _down(grid: _Grid) -> Mapping[int, tuple[float, float]]:
    """Return for each cell where its row begins and ends; in it, things stand on the ground."""
    down: dict[int, tuple[float, float]] = {}
    bottom = -GAP_Y
    for row in reversed(grid.rows):
        top = bottom + GAP_Y
        bottom = top + max(grid.cells[cell].height for cell in row)
        down |= dict.fromkeys(row, (top, bottom))
    return down


def _across(grid: _Grid) -> tuple[Mapping[int, float], float]:
    """Return each cell's axis, and the width: cells stand over and under what they belong to."""
    below: dict[int, list[int]] = {}
    for lower, uppers in grid.above.items():
        for upper in uppers:
            below.setdefault(upper, []).append(lower)
    axes = dict.fromkeys(range(len(grid.cells)), 0.0)
    for _ in grid.rows:
        before = dict(axes)
        for row in grid.rows[1:]:
            _pull(row, below, axes, grid.cells)
        for row in reversed(grid.rows[:-1]):
            _pull(row, grid.above, axes, grid.cells)
        if axes == before:
            break
    left = min(x - grid.cells[cell].left for cell, x in axes.items())
    right = max(x + grid.cells[cell].right for cell, x in axes.items())
    return {cell: x - left for cell, x in axes.items()}, right - left


def _pull(
    row: Sequence[int],
    neighbours: Mapping[int, Sequence[int]],
    axes: dict[int, float],
    cells: Sequence[Thing],
) -> None:
    """Move a row's cells as near as they get to the middle of their neighbours in another row."""
    wanted = [median([axes[one] for one in neighbours[cell]] or [axes[cell]]) for cell in row]
    apart = [cells[left].right + GAP_X + cells[right].left for left, right in pairwise(row)]
    axes.update(zip(row, _spread(wanted, apart), strict=True))


def _spread(wanted: Sequence[float], apart: Sequence[float]) -> Iterator[float]:
    """Yield the positions nearest to those wanted that keep their order and their distances.

    Nearest in least squares: isotonic regression of the wanted positions less the distances, by
    pooling neighbours that are out of order (Barlow et al. 1972).
    """
    offsets = list(accumulate(apart, initial=0.0))
    pools: list[list[float]] = []
    for position, offset in zip(wanted, offsets, strict=True):
        pools.append([position - offset])
        while len(pools) > 1 and fmean(pools[-2]) > fmean(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    means = (mean for pool in pools for mean in [fmean(pool)] * len(pool))
    return (mean + offset for mean, offset in zip(means, offsets, strict=True))
