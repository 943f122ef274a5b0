"""Schedules, and rounds of them."""

from __future__ import annotations

import collections
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Iterable, TypeVar

from . import _core
from ._errors import ArgumentError, Busy, Error
from ._memory import NOTHING, Memory, look, look_all, look_at_host, numbers, values
from ._words import DTYPE_NAMES

if TYPE_CHECKING:
    from ._world import World

Ticket = _core.Ticket
_Kind = TypeVar("_Kind", bound="Schedule")
_LONGEST_SLEEP = 5e-3  # seconds
_PLACES = {False: "the host", True: "a device"}  # by Memory.is_on_device


async def _ended(ticket: Ticket) -> None:
    """Looks whether the round has ended, ever less often. Other tasks run meanwhile."""
    import asyncio  # half of the time that importing libsched would take

    sleep = 0.0
    while not ticket.test():
        await asyncio.sleep(sleep)
        sleep = min(2 * sleep + 5e-5, _LONGEST_SLEEP)


Ticket.__await__ = lambda ticket: _ended(ticket).__await__()  # type: ignore[attr-defined]


class _Owner:
    """Of memory that views look at: there as long as any of them."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule


class Schedule(_core.Schedule):
    """A persistent collective: created once, run any number of times.

    Made by the methods of World, collectively; `with` closes it. Its arrays may be looked at and changed between
    rounds, and belong to it while a round runs. start(), start_on_stream(), run() and cancel() are documented at their
    base class.
    """

    world: World = None  # type: ignore[assignment]  # until it is made
    _dtype = 0
    _kind = ""  # as Memory.kind
    _blocks = (0, 0)

    def __init__(self, world: World, handle: int, sources: Iterable[Memory] = (),
                 targets: Iterable[Memory] = ()) -> None:
        super().__init__(handle)
        self.world = world
        self._bound = (list(sources), list(targets))
        self._recent: collections.deque = collections.deque(maxlen=8)  # as many rounds as may be outstanding
        self._views: list[tuple] = []  # of memory that is the library's, and what is there as long as they are
        world._parts.add(self)

    # --- memory of rounds ----------------------------------------------------------------------------------------

    def rebind(self, input: Any = None, output: Any = None, *, inputs: Iterable[Any] | None = None,
               outputs: Iterable[Any] | None = None, dtype: Any = None) -> None:
        """The same collective over other arrays, of the same sizes, from the next round on.

        In place: one array, as `output`. `inputs` and `outputs`: of schedules with several of them. Does not block.
        Raises StateError while a round runs, ArgumentError where one array is given for two or two for one.
        """
        sources, targets = self._memories(input, output, inputs, outputs, dtype)
        self._expect_alike(sources, targets)
        self._rebind([each.address for each in sources], [each.address for each in targets])
        self._bound = (sources, targets)

    def _memories(self, input: Any, output: Any, inputs: Any, outputs: Any,
                  dtype: Any) -> tuple[list[Memory], list[Memory]]:
        if inputs is None:
            inputs = [] if input is None and output is None else [output if input is None else input]
        if outputs is None:
            outputs = [] if output is None else [output]
        return (look_all(inputs, False, dtype, "input"), look_all(outputs, True, dtype, "output"))

    def _expect_alike(self, sources: list[Memory], targets: list[Memory]) -> None:
        """The library knows addresses only: arrays of another length would be written beyond their end."""
        for what, given, bound in (("input", sources, self._bound[0]), ("output", targets, self._bound[1])):
            if not given and len(bound) == 1:
                given.append(NOTHING)
            if len(given) != len(bound):
                raise ArgumentError(f"{len(given)} {what}s: {len(bound)} are wanted", "LSCHED_ERR_ARGUMENT")
            for i, (memory, wanted) in enumerate(zip(given, bound)):
                is_same = memory.count == wanted.count and memory.is_alike(wanted)
                if memory is not NOTHING is not wanted and not is_same:
                    raise ArgumentError(f"{what} {i} has {memory.count} elements of {memory.dtype_name}: "
                                        f"{wanted.count} of {wanted.dtype_name} are wanted", "LSCHED_ERR_ARGUMENT")
                if wanted.count and memory.is_on_device != wanted.is_on_device:
                    raise ArgumentError(f"{what} {i} was given in the memory of {_PLACES[memory.is_on_device]}: it was "
                                        f"created in that of {_PLACES[wanted.is_on_device]}", "LSCHED_ERR_ARGUMENT")

    def start_with(self, input: Any = None, output: Any = None, *, send_counts: Any = None, recv_counts: Any = None,
                   send_displacements: Any = None, recv_displacements: Any = None, received: Any = None,
                   dtype: Any = None) -> Ticket:
        """Start the next round over arrays of its own: of schedules with a `capacity` or a `depth`.

        Counts and displacements are elements, one for each block; lists, or arrays of 64-bit numbers, which belong to
        the round until it has ended. `recv_counts`: the room of each block, of which a sender may fill less.
        `received`: such an array, to which the elements of each block are written.
        """
        counts = [numbers(send_counts, name="send_counts"), numbers(send_displacements, name="send_displacements"),
                  numbers(recv_counts, name="recv_counts"), numbers(recv_displacements, name="recv_displacements"),
                  numbers(received, True, "received")]
        has_counts = any(each.keeps is not None for each in counts)
        looked = look_at_host if has_counts else look
        source = None if input is None else looked(input, False, dtype, "input")
        target = None if output is None else looked(output, True, dtype, "output")
        if has_counts:
            self._expect_within("send", source, counts[0], counts[1], self._blocks[0])
            self._expect_within("recv", target, counts[2], counts[3], self._blocks[1])
            if counts[4].keeps is not None and counts[4].count != self._blocks[1]:
                raise ArgumentError(f"received has {counts[4].count} numbers: {self._blocks[1]} are wanted",
                                    "LSCHED_ERR_ARGUMENT")
        else:
            self._expect_alike([] if source is None else [source], [] if target is None else [target])
        keeps = (source, target, counts)
        ticket = self._start_with(None if source is None else [source.address],
                                  None if target is None else [target.address],
                                  [each.address for each in counts] if has_counts else None, keeps)
        self._recent.append(keeps)  # the ticket may be dropped before the round is over
        return ticket

    def _expect_within(self, what: str, memory: Memory | None, counts: Memory, displacements: Memory,
                       blocks: int) -> None:
        """Blocks of so many elements from there on, or one after the other, lie within the array."""
        if memory is not None and (memory.dtype, memory.kind) != (self._dtype, self._kind):
            raise ArgumentError(f"the array to {what} has elements of {memory.dtype_name}: "
                                f"{self._kind or DTYPE_NAMES.get(self._dtype, '?')} is wanted", "LSCHED_ERR_ARGUMENT")
        if counts.keeps is None:
            return
        lengths, begins = values(counts), values(displacements)
        for name, given in (("counts", lengths), ("displacements", begins)):
            if len(given) != blocks and (name == "counts" or given):
                raise ArgumentError(f"{what}_{name} has {len(given)} numbers: {blocks} are wanted",
                                    "LSCHED_ERR_ARGUMENT")
        end = max((b + n for b, n in zip(begins, lengths)), default=0) if begins else sum(lengths)
        if min(lengths + begins, default=0) < 0 or end > (0 if memory is None else memory.count):
            raise ArgumentError(f"{what}_counts reach to element {end} of an array that has "
                                f"{0 if memory is None else memory.count}", "LSCHED_ERR_ARGUMENT")

    # --- texts ---------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """The compiled program of this rank, as docs/reference/schedule_file.md describes it; load() reads it."""
        return self._print(False)

    def dot(self) -> str:
        """The same as a graph in the language of Graphviz."""
        return self._print(True)

    # --- adaptive sums -------------------------------------------------------------------------------------------

    def non_finite_tensors(self) -> list[bool]:
        """Which tensors of the last round of an adasum hold NaN or infinities; the same on all ranks."""
        return self._non_finite_tensors(getattr(self, "_tensors", 1))

    # --- the end -------------------------------------------------------------------------------------------------

    def close(self, timeout: float | None = None) -> None:
        """End the schedule; once is enough. Local, but collective of a partial one: it waits for all ranks.

        Raises Busy while a round runs: wait for it, or cancel(); Timeout: nothing is gone, call again.
        """
        if not self.is_open:
            return
        self._take_views_back()
        self._destroy(timeout)
        self._bound = ([], [])

    def _viewed(self, address: int, bytes: int, form: str = "B", is_read_only: bool = False) -> memoryview:
        """Memory of the library's, which is there until the schedule is closed; then the view is released."""
        owner = _Owner(self)
        view = memoryview(_core.bytes_at(address, bytes, owner)).cast("B").cast(form)
        view = view.toreadonly() if is_read_only else view
        self._views = [each for each in self._views if each[1]() is not None]
        self._views.append((weakref.ref(view), weakref.ref(owner)))
        return view

    def _take_views_back(self) -> None:
        """Of an array over a view, or another view of it, nothing can be taken back."""
        for view, owner in self._views:
            try:
                if (seen := view()) is not None:
                    seen.release()
            except BufferError:
                pass
            if owner() is not None:
                raise Busy("an array still looks at memory of this schedule", "LSCHED_ERR_BUSY")
        self._views = []

    def __enter__(self: _Kind) -> _Kind:
        return self

    def __exit__(self, kind, *_) -> None:
        if kind is None:
            self.close()
        else:
            self._abandon(is_cancelled=True)

    def _abandon(self, is_cancelled: bool = False) -> None:
        """Ends it without waiting for anybody, and raises nothing: there is an error already.

        `is_cancelled`, or where it cannot be ended: other ranks hear of it.
        """
        try:
            try:
                if is_cancelled:
                    self.cancel()
                self._take_views_back()
                self._destroy(0.0)
            except Error:
                self.cancel()
                self._take_views_back()
                self._destroy(1.0)
            self._bound = ([], [])
        except Error:
            if self not in self.world._abandoned:
                self.world._abandoned.append(self)  # and with it the arrays, which somebody still uses

    def __del__(self) -> None:
        if self.world is None or not self.is_open or not self.world.is_open:
            return
        try:
            warnings.warn(f"a schedule was not closed: {self!r}", ResourceWarning, source=self)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Nobody refers to it any more. What is busy lives on, arrays and all, until the world is given up."""
        try:
            self._take_views_back()
            self._destroy(0.0)
        except Error:
            self.world._abandoned.append(self)
