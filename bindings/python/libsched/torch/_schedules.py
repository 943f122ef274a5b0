"""The schedules of a group. The first call of a kind creates a schedule, and later calls of the kind run it."""

from __future__ import annotations

import collections
import weakref
from typing import Any

from .. import _core
from .._errors import Busy, Cancelled, Error
from .._schedule import Schedule
from .._words import REDUCTIONS
from ._work import as_torch_error

# The number of rounds of one kind that may be in flight. A kind has RING places (schedules). The i-th call of a kind
# uses place i modulo RING on every rank. The choice does not depend on which rounds have ended, because all ranks must
# choose the same place.
RING = 4
# The maximum number of kinds. The oldest kind is closed first. The oldest kind is the same on all ranks, because all
# ranks make their calls in the same order.
MOST_KINDS = 256


class Place:
    """A schedule, and the Work of its last round. The round must end before the next round starts.

    The place keeps the Work until the round has ended. The thread that detects the end sets `work` to None.
    """

    __slots__ = ("schedule", "work", "keeps")

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.work: Any = None
        self.keeps: Any = None

    def settle(self) -> None:
        """Waits for the last round, unless its end is already known."""
        work = self.work
        if work is not None:
            work.wait()
            self.work = None

    def cancel_from(self, number: int) -> None:
        """Cancels the round in flight if it belongs to call `number` or to a later call."""
        work = self.work
        if work is not None and work.call >= number:
            self.cancel(work)
            self.work = None

    def cancel(self, keeps: Any) -> None:
        """Cancels a round on all ranks after a wait has failed, so that the caller may use the memory again."""
        try:
            self.schedule.cancel()
        except Error:
            self.keeps = keeps  # a peer still reads the memory


class StreamPlace(Place):
    """A schedule over memory of a device, and the Work objects of its rounds. UnderWay keeps rounds until they end."""

    __slots__ = ("bound", "_works")

    def __init__(self, schedule: Schedule, bound: tuple[int, int]) -> None:
        super().__init__(schedule)
        self.bound = bound
        self._works: collections.deque[weakref.ref] = collections.deque()

    def add(self, work: Any) -> None:
        """Adds the Work of the round that was started last."""
        self._works.append(weakref.ref(work))

    def start(self, input: int, output: int, stream: int, keeps: Any) -> _core.Ticket:
        """Starts the next round, which runs after the work in the stream.

        Does not block, unless the memory differs from the memory of the last round or 16 rounds are outstanding. In
        these cases, first waits until all rounds of the place have ended. Raises DistBackendError if one of them fails.
        """
        while self._works and getattr(self._works[0](), "_ticket", None) is None:
            self._works.popleft()
        is_bound = (input, output) == self.bound
        if not is_bound:
            self.settle()
        try:
            ticket = self.schedule._start_at_on_stream(input, output, is_bound, stream, keeps)
        except Busy:
            self.settle()
            ticket = self.schedule._start_at_on_stream(input, output, is_bound, stream, keeps)
        self.bound = (input, output)
        return ticket

    def cancel_from(self, number: int) -> None:
        """Does nothing, because rounds in a stream need not be cancelled: closing the group waits for them."""

    def settle(self) -> None:
        while self._works:
            work = self._works[0]()
            if work is not None:
                work._wait_in_host(work.limit)
            self._works.popleft()


class Kind:
    """All schedules for one request, each with its memory (a place).

    Every rank creates and uses the places in the order of its calls.

    `device` is the device with the memory of the rounds; None: host memory.
    """

    def __init__(self, world: Any, name: str, request: _core.Request | None, device: Any = None) -> None:
        self.device = device
        self._world = world
        self._name = name
        self._request = request
        self.places: list[Place] = []
        self._next = 0

    def place(self, input: int, output: int) -> Place:
        """Returns the next place, and creates the schedule of a new place.

        The schedule is bound to the memory of its last round. A new schedule is bound to `input` and `output`.
        """
        number = self._next
        after = (number + 1) % RING
        if number < len(self.places):
            place = self.places[number]
            self._next = after
            if place.work is not None:
                place.settle()
            return place
        if self._request is None:
            handle = _core.barrier(self._world)
        else:
            handle = _core.collective(self._world, self._name, input, output, self._request)
        made = Schedule(self._world, handle)
        place = Place(made) if self.device is None else StreamPlace(made, (input, output))
        self.places.append(place)
        self._next = after
        return place

    def ready_place(self) -> Place | None:
        """Returns the next place if its schedule exists and its last round has ended.

        Otherwise returns None, and the caller must call place(), which can fail.
        """
        number = self._next
        if number == len(self.places):
            return None
        place = self.places[number]
        if place.work is not None:
            return None
        self._next = (number + 1) % RING
        return place

    def works(self) -> list[Any]:
        """Returns the Work objects of rounds that are not known to have ended, or that were given up."""
        return [work for place in self.places if (work := place.work) is not None]

    def expect_no_failure(self) -> None:
        """Raises the error of a Work whose wait has failed or timed out."""
        for work in self.works():
            error = work.exception()
            if error is not None:
                raise error

    def cancel_from(self, number: int) -> None:
        for place in self.places:
            place.cancel_from(number)

    def close(self) -> None:
        for place in self.places:
            place.settle()
            place.schedule.close(0.0)


class Schedules:
    """All kinds of one group."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self.kinds: dict[tuple, Kind] = {}
        self._given_up: list[Kind] = []
        self._why: BaseException | None = None

    def add(self, key: tuple, name: str, device: Any = None, **members: Any) -> Kind:
        """Adds a kind.

        `members` are members of lsched_collective_desc, with `op` as a string. All ranks pass the same members.
        """
        request = None
        if name != "barrier":
            request = _core.Request()
            op = members.pop("op", None)
            if op is not None:
                request.reduction = REDUCTIONS[op]
            for member, given in members.items():
                setattr(request, member, given)
        if len(self.kinds) == MOST_KINDS:
            self.kinds.pop(next(iter(self.kinds))).close()
        kind = self.kinds[key] = Kind(self._world, name, request, device)
        return kind

    def works_under_way(self) -> list[Any]:
        """Returns the Work objects of rounds over host memory that have not been waited for."""
        return [work for kind in list(self.kinds.values()) for work in kind.works() if not work.has_ended()]

    def expect_in_use(self) -> None:
        """Raises DistBackendError if the group was given up."""
        if self._why is not None:
            why = getattr(self._why, "text", str(self._why)) or type(self._why).__name__
            raise as_torch_error(Cancelled(f"this process group was given up, because an earlier call failed: {why}. "
                                           "Create a new group",
                                           "LSCHED_ERR_CANCELLED"))

    def why(self) -> BaseException | None:
        """Returns the error after which the group was given up, as an Error of the library if possible."""
        return self._why if self._why is None else self._why.__cause__ or self._why

    def give_up(self, why: BaseException) -> None:
        """Refuses all later calls ("gives the group up"), because calls of the cancelled schedule would fail."""
        self._why = self._why or why
        while self.kinds:  # another thread may add a kind
            self._given_up.append(self.kinds.popitem()[1])

    def drop(self, number: int) -> None:
        """Forgets all schedules, on all ranks, because call `number` was refused.

        The schedules stay open until the group is closed, because another rank may still wait in a round.
        """
        for kind in list(self.kinds.values()):
            kind.cancel_from(number)
        while self.kinds:  # another thread may add a kind
            self._given_up.append(self.kinds.popitem()[1])

    def close(self) -> None:
        """Waits for the rounds in flight and closes all schedules.

        If an earlier wait has failed, raises its error instead.
        """
        for kind in (*self.kinds.values(), *self._given_up):
            kind.expect_no_failure()
            kind.close()
        self.kinds.clear()
        self._given_up.clear()
