"""Schedules and their rounds."""

from __future__ import annotations

import collections
import sys
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
_PLACES = {False: "the host", True: "a device"}  # key: Memory.is_on_device


async def _ended(ticket: Ticket) -> None:
    """Waits until the round has ended. Tests the round at growing intervals.

    Other tasks of the event loop run meanwhile.
    """
    import asyncio  # imported late, because importing it takes as long as the rest of `import libsched`

    sleep = 0.0
    while not ticket.test():
        await asyncio.sleep(sleep)
        sleep = min(2 * sleep + 5e-5, _LONGEST_SLEEP)


Ticket.__await__ = lambda ticket: _ended(ticket).__await__()  # type: ignore[attr-defined]


class _Owner:
    """An object that lives as long as any view of the library's memory."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule


class Schedule(_core.Schedule):
    """A persistent collective, which is created once and can run any number of times.

    The methods of World create schedules, and are collective. A `with` block closes the schedule at its end. The
    application may read and write the arrays between rounds, but not while a round runs. The base class documents
    start(), start_on_stream(), run() and cancel().
    """

    world: World = None  # type: ignore[assignment]  # until __init__ has run
    _dtype = 0
    _kind = ""  # as Memory.kind
    _blocks = (0, 0)
    _tensors = 1

    def __init__(self, world: World, handle: int, sources: Iterable[Memory] = (),
                 targets: Iterable[Memory] = ()) -> None:
        super().__init__(handle)
        self.world = world
        self._bound = (list(sources), list(targets))
        # Keeps the arrays of the last 8 rounds alive, because 8 rounds can be outstanding.
        self._recent: collections.deque = collections.deque(maxlen=8)
        self._views: list[tuple] = []  # weak references to views of library memory, each with its _Owner
        world._parts.add(self)

    # --- memory of rounds ----------------------------------------------------------------------------------------

    def rebind(self, input: Any = None, output: Any = None, *, inputs: Iterable[Any] | None = None,
               outputs: Iterable[Any] | None = None, dtype: Any = None) -> None:
        """Binds the schedule to other arrays of the same sizes, from the next round on. Does not block.

        To run in place, give one array, as `output`. `inputs` and `outputs` are for schedules with several inputs or
        outputs. Raises StateError while a round runs. Raises ArgumentError if an array does not match the bound array.
        Also raises ArgumentError if an in-place schedule gets two different arrays, or if any other schedule gets the
        same array twice.
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
        """Raises ArgumentError unless the arrays match the bound arrays.

        The library gets only addresses, so a shorter array would be overrun.
        """
        for what, given, bound in (("input", sources, self._bound[0]), ("output", targets, self._bound[1])):
            if not given and len(bound) == 1:
                given.append(NOTHING)
            if len(given) != len(bound):
                raise ArgumentError(f"got {len(given)} {what}s: expected {len(bound)}", "LSCHED_ERR_ARGUMENT")
            for i, (memory, wanted) in enumerate(zip(given, bound)):
                is_same = memory.count == wanted.count and memory.is_alike(wanted)
                if memory is not NOTHING is not wanted and not is_same:
                    raise ArgumentError(f"{what} {i} has {memory.count} elements of {memory.dtype_name}: "
                                        f"expected {wanted.count} of {wanted.dtype_name}", "LSCHED_ERR_ARGUMENT")
                if wanted.count and memory.is_on_device != wanted.is_on_device:
                    raise ArgumentError(f"{what} {i} is in the memory of {_PLACES[memory.is_on_device]}: the "
                                        f"schedule needs memory of {_PLACES[wanted.is_on_device]}",
                                        "LSCHED_ERR_ARGUMENT")

    def start_with(self, input: Any = None, output: Any = None, *, send_counts: Any = None, recv_counts: Any = None,
                   send_displacements: Any = None, recv_displacements: Any = None, received: Any = None,
                   dtype: Any = None) -> Ticket:
        """Starts the next round over the given arrays. Requires a schedule that has a `capacity` or a `depth`.

        Counts and displacements are numbers of elements, one for each block. They are lists, or arrays of 64-bit
        integers that must not change until the round has ended. `recv_counts` is the capacity of each received block. A
        sender may send fewer elements. The library writes the number of elements of each received block to `received`,
        an array of 64-bit integers.
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
                raise ArgumentError(f"the argument `received` has {counts[4].count} numbers: expected "
                                    f"{self._blocks[1]}, a number for each block",
                                    "LSCHED_ERR_ARGUMENT")
        else:
            self._expect_alike([] if source is None else [source], [] if target is None else [target])
        keeps = (source, target, counts)
        ticket = self._start_with(None if source is None else [source.address],
                                  None if target is None else [target.address],
                                  [each.address for each in counts] if has_counts else None, keeps)
        self._recent.append(keeps)  # keeps the arrays if the caller drops the ticket before the round ends
        return ticket

    def _expect_within(self, what: str, memory: Memory | None, counts: Memory, displacements: Memory,
                       blocks: int) -> None:
        """Raises ArgumentError unless all blocks are within the array.

        Without displacements the blocks are contiguous.
        """
        if memory is not None and (memory.dtype, memory.kind) != (self._dtype, self._kind):
            raise ArgumentError(f"the array to {what} has elements of {memory.dtype_name}: "
                                f"expected {self._kind or DTYPE_NAMES.get(self._dtype, '?')}", "LSCHED_ERR_ARGUMENT")
        if counts.keeps is None:
            return
        lengths, begins = values(counts), values(displacements)
        for name, given in (("counts", counts), ("displacements", displacements)):
            if given.keeps is not None and given.count != blocks:
                raise ArgumentError(f"{what}_{name} has {given.count} numbers: expected {blocks}, a number for each "
                                    "block",
                                    "LSCHED_ERR_ARGUMENT")
        end = max((b + n for b, n in zip(begins, lengths)), default=0) if begins else sum(lengths)
        if min(lengths + begins, default=0) < 0 or end > (0 if memory is None else memory.count):
            raise ArgumentError(f"{what}_counts reach element {end}, but the array has "
                                f"{0 if memory is None else memory.count} elements", "LSCHED_ERR_ARGUMENT")

    # --- texts ---------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """Returns the compiled program of this rank as a schedule file, which load() reads.

        docs/reference/schedule_file.md describes the format.
        """
        return self._text()

    def dot(self) -> str:
        """Returns the compiled program of this rank as a graph in the language of Graphviz."""
        return self._dot()

    # --- adaptive sums -------------------------------------------------------------------------------------------

    def non_finite_tensors(self) -> list[bool]:
        """Returns a bool for each tensor of an adasum: True if the last round found NaN or infinities in the tensor.

        All ranks get the same result.
        """
        return self._non_finite_tensors(self._tensors)

    # --- the end -------------------------------------------------------------------------------------------------

    def close(self, timeout: float | None = None) -> None:
        """Closes the schedule.

        Later calls of close() have no effect. The call is local. But for a partial schedule, the call is collective and
        waits for all ranks. Raises Busy while a round runs: wait for the round, or call cancel(). Also raises Busy
        while an array refers to memory of the schedule. After a Timeout the schedule is still open: call again.
        """
        if not self.is_open:
            return
        self._take_views_back()
        self._destroy(timeout)
        self._bound = ([], [])

    def _viewed(self, address: int, bytes: int, form: str = "B", is_read_only: bool = False) -> memoryview:
        """Returns a view of memory that the library frees when the schedule is closed. close() releases the view."""
        owner = _Owner(self)
        view = memoryview(_core.bytes_at(address, bytes, owner)).cast("B").cast(form)
        view = view.toreadonly() if is_read_only else view
        self._views = [each for each in self._views if each[1]() is not None]
        self._views.append((weakref.ref(view), weakref.ref(owner)))
        return view

    def _take_views_back(self) -> None:
        """Releases the views of the library's memory.

        Raises Busy if an array or another view refers to one of these views, because such a view cannot be released.
        """
        for view, owner in self._views:
            try:
                if (seen := view()) is not None:
                    seen.release()
            except BufferError:
                pass
            if owner() is not None:
                raise Busy("an array still uses memory of this schedule: delete all arrays and views of that memory "
                           "first", "LSCHED_ERR_BUSY")
        self._views = []

    def __enter__(self: _Kind) -> _Kind:
        return self

    def __exit__(self, kind, *_) -> None:
        if kind is None:
            self.close()
        else:
            self._abandon(is_cancelled=True)

    def _abandon(self, is_cancelled: bool = False) -> None:
        """Destroys the schedule after an error. Waits at most a second, and raises nothing.

        Cancels the schedule on all ranks if `is_cancelled` is true, or if the schedule cannot be destroyed at once.
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
                self.world._abandoned.append(self)  # also keeps the arrays, which are still in use

    def __del__(self) -> None:
        if self.world is None or not self.is_open or not self.world.is_open or sys.is_finalizing():
            return
        try:
            warnings.warn(f"a schedule was not closed: {self!r}. Call close(), or use a with statement",
                          ResourceWarning, source=self)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Destroys a schedule that has no more references.

        If the schedule is busy, the world keeps the schedule and its arrays until the world is given up.
        """
        try:
            self._take_views_back()
            self._destroy(0.0)
        except Error:
            self.world._abandoned.append(self)
