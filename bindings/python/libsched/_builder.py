"""Schedules that an application builds op by op."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, NamedTuple

from . import _core
from ._collective import collective_call
from ._errors import ArgumentError
from ._memory import expect_declared, look_all
from ._schedule import Schedule
from ._words import dtype_kind, dtype_number, reduction_number

if TYPE_CHECKING:
    from ._world import World


class Region(NamedTuple):
    """A region of a buffer: `count` elements that begin with element `offset`."""

    buffer: int
    offset: int
    count: int


class Buffer(NamedTuple):
    """A buffer of a schedule.

    `buffer[a:b]` is the region of elements a to b-1, and `buffer[:]` is the region of all elements.
    """

    number: int
    count: int

    def __getitem__(self, part: slice) -> Region:  # type: ignore[override]
        begin, end, step = part.indices(self.count)
        if step != 1:
            raise ValueError(f"a region must be contiguous, but the slice has step {step}: use step 1")
        return Region(self.number, begin, max(0, end - begin))


def load_algorithm(text: str) -> None:
    """Registers an algorithm for the rest of the process. `text` is the content of an algorithm file.

    All ranks must load the algorithm before they create schedules. The option `algorithm` then accepts the name of the
    algorithm, and "auto" may choose the algorithm for requests whose schedules were proved correct. Raises
    ArgumentError with line, column and reason.
    """
    _core.load_algorithm(text)


Part = Region | Buffer | tuple[int, int, int]


def _region(part: Part) -> tuple[int, int, int]:
    region = tuple(part[:] if isinstance(part, Buffer) else part)
    if len(region) != 3:
        raise ArgumentError(f"{region} is not a region: give a buffer, a slice of a buffer, or (buffer, offset, count)",
                            "LSCHED_ERR_ARGUMENT")
    return region


def _equal_regions(*parts: Part) -> list[tuple[int, int, int]]:
    regions = [_region(part) for part in parts]
    if len({count for _, _, count in regions}) != 1:
        counts = ", ".join(str(count) for _, _, count in regions)
        raise ArgumentError(f"an op got regions of {counts} elements: give regions of equal counts",
                            "LSCHED_ERR_ARGUMENT")
    return regions


class Builder(_core.Builder):
    """A schedule of this rank that is built op by op. commit() connects the schedules of all ranks, and is collective.

        to = world.builder("ring")
        mine, left = to.input("f32", n), to.output("f32", n)
        to.send((world.rank + 1) % world.size, 0, mine[:])
        to.recv((world.rank - 1) % world.size, 0, left[:])
        with to.commit(inputs=[x], outputs=[y]) as ring:
            ring.run()

    A Buffer stands for the region of all its elements. Each function that adds an op returns the id of the op. `after`
    lists the ids of ops that must complete before the new op starts. For each peer and direction, a tag may be used
    only once. commit() reports errors in peers, bounds and tags.
    """

    def __init__(self, world: World | None = None, name: str | None = None, *, rank: int = 0, ranks: int = 0) -> None:
        """Makes a builder for this rank of `world`.

        Without a world, makes a builder for rank `rank` of `ranks`. Such a builder cannot be committed, but
        World.load() accepts its text().
        """
        if world is None:
            if not 0 <= rank < ranks:
                raise ArgumentError(f"rank is {rank} and ranks is {ranks}: give a world, or a rank from 0 to ranks - 1",
                                    "LSCHED_ERR_ARGUMENT")
            super().__init__(rank, ranks, name)
        else:
            super().__init__(world, name)
        self.world = world
        self._inputs: list[tuple[int, int, str]] = []  # count, dtype and kind of each input
        self._outputs: list[tuple[int, int, str]] = []
        self._kinds: dict[int, str] = {}  # key: index of the buffer

    def input(self, dtype: Any, count: int) -> Buffer:
        """Declares a buffer that ops only read. commit() binds the inputs in the order of declaration."""
        self._inputs.append((count, dtype_number(dtype), dtype_kind(dtype)))
        return self._buffer(self._input(dtype_number(dtype), count), count, dtype)

    def output(self, dtype: Any, count: int) -> Buffer:
        """Declares a buffer that ops write. commit() binds the outputs in the order of declaration."""
        self._outputs.append((count, dtype_number(dtype), dtype_kind(dtype)))
        return self._buffer(self._output(dtype_number(dtype), count), count, dtype)

    def scratch(self, dtype: Any, count: int) -> Buffer:
        """Declares a buffer whose memory belongs to the schedule."""
        return self._buffer(self._scratch(dtype_number(dtype), count), count, dtype)

    def _buffer(self, number: int, count: int, dtype: Any) -> Buffer:
        self._kinds[number] = dtype_kind(dtype)
        return Buffer(number, count)

    def nop(self, after: Iterable[int] = ()) -> int:
        return self._waiting(self._nop(), after)

    def send(self, to: int, tag: int, source: Part, after: Iterable[int] = ()) -> int:
        return self._waiting(self._send(to, tag, _region(source)), after)

    def recv(self, source: int, tag: int, target: Part, after: Iterable[int] = ()) -> int:
        return self._waiting(self._recv(source, tag, _region(target)), after)

    def reduce(self, op: str, lower: Part, higher: Part, target: Part, after: Iterable[int] = ()) -> int:
        """Adds an op: target = lower (op) higher, elementwise. Any two of the regions must be equal or disjoint."""
        kinds = {self._kinds.get(_region(part)[0], "") for part in (lower, higher, target)}
        what = reduction_number(op, kinds.pop())
        if kinds:
            raise ArgumentError("a reduce cannot combine bools with other elements: give operands of the same dtype",
                                "LSCHED_ERR_ARGUMENT")
        return self._waiting(self._reduce(what, *_equal_regions(lower, higher, target)), after)

    def copy(self, source: Part, target: Part, after: Iterable[int] = ()) -> int:
        return self._waiting(self._copy(*_equal_regions(source, target)), after)

    def dep(self, before: int, after: int) -> None:
        """Adds a dependency: op `after` waits for the completion of op `before` (see need())."""
        self._dep(before, after)

    def need(self, op: int, tokens: int) -> None:
        """Lets the op start as soon as `tokens` of its dependencies have completed. 0 means all dependencies."""
        self._set_need(op, tokens)

    def _waiting(self, op: int, after: Iterable[int]) -> int:
        for before in after:
            self._dep(before, op)
        return op

    def text(self) -> str:
        """Returns the schedule that commit() would run, as a schedule file.

        verify() and simulate() need the texts of all ranks, one after the other.
        """
        return super().text()

    @collective_call
    def commit(self, inputs: Iterable[Any] = (), outputs: Iterable[Any] = ()) -> Schedule:
        """Compiles the schedule, binds the arrays, connects the ranks and returns the schedule.

        This method is collective. Afterwards the builder cannot be used, even if the commit fails. Raises Mismatch if
        sends and receives of the world do not match.
        """
        if self.world is None:
            raise ArgumentError("a builder without a world cannot commit: pass text() to World.load()",
                                "LSCHED_ERR_ARGUMENT")
        try:
            return self._committed(inputs, outputs)
        finally:
            self._discard()

    def _committed(self, inputs: Iterable[Any], outputs: Iterable[Any]) -> Schedule:
        sources = look_all(inputs, False, name="input")
        targets = look_all(outputs, True, name="output")
        expect_declared("inputs", [(each.count, each.dtype, each.kind) for each in sources], self._inputs)
        expect_declared("outputs", [(each.count, each.dtype, each.kind) for each in targets], self._outputs)
        handle = self._commit(self.world, [each.address for each in sources], [each.address for each in targets])
        return self.world._agreed(Schedule(self.world, handle, sources, targets))
