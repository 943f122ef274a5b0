"""The collective calls of a group, and how a call is refused on all ranks.

Ranks wait for each other in two places: in the create of a schedule, and in a round of a schedule that an earlier call
has created. A rank that refuses a call does not know where the others are, so it does two things:

    refusing rank                                  other ranks
      sends the number of the call   ──────►    in a round: find the message after a slice, and commit a create
      commits a failing create       ◄──────
                                     ◄──────    in a create: that create is the one

The create fails on all ranks with the reason. It also proves that all ranks have come to the refused call, so earlier
rounds are over on all of them. Then each rank drops all schedules, and the next call creates its schedule again.
"""

from __future__ import annotations

import functools
import threading
import time
from typing import Any, Callable, TypeVar

import torch

from .. import _core
from .._errors import Error, Timeout, status_number
from .._messages import ANY_RANK
from .._schedule import Schedule
from ._work import as_torch_error, waiter

PARTS = 2**20 - 1  # the bits of a number that count the parts of a call
TAG = 2**31 - 1  # of the messages about refused calls
SLICE = 0.1  # seconds for which a wait does not look for messages
# Statuses of a failed create. They do not come from rounds.
_OF_CREATES = {"LSCHED_ERR_ARGUMENT", "LSCHED_ERR_BOUNDS", "LSCHED_ERR_MISMATCH", "LSCHED_ERR_UNMATCHED",
               "LSCHED_ERR_CONSTRAINT", "LSCHED_ERR_UNSUPPORTED", "LSCHED_ERR_NOMEM"}

_Method = TypeVar("_Method", bound=Callable[..., Any])


def collective_call(method: _Method) -> _Method:
    """Makes a method of a Group a collective call, which refuses its arguments on all ranks."""

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        calls = self._calls
        calls.begin()
        if calls.is_under_way:  # a part of another call
            return method(self, *arguments, **options)
        calls.is_under_way = True
        calls.has_begun = False
        try:
            return method(self, *arguments, **options)
        except BaseException as error:
            if calls.may_refuse:
                calls.refuse(error)
            raise
        finally:
            calls.is_under_way = False

    call._is_collective = True  # type: ignore[attr-defined]  # for the test that knows all collective calls
    return call  # type: ignore[return-value]


class Calls:
    """Numbers the collective calls of a group, and their parts, in the same way on all ranks.

    number        the last call that this rank has made, and in the low bits a part of that call
    is_under_way  whether this rank is in a call
    may_refuse    whether an exception refuses that call: this rank has not started the round that belongs to the call
    """

    def __init__(self, world: Any, box: Any, schedules: Any, limit: float) -> None:
        self._world = world
        self._box = box
        self._schedules = schedules
        self._limit = limit
        self.number = 0
        self.is_under_way = False
        self.may_refuse = False
        self.has_begun = False  # a part of the present call
        self._commits = 0  # of this rank, when the present part of the call began
        self._settled = 0  # the last refused call
        self._heard: set[int] = set()  # numbers of refused calls that this rank has not come to
        self._lock = threading.RLock()

    def begin(self) -> None:
        """Begins the next call, or a part of the present one."""
        self.number = self.number + 1 if self.is_under_way else (self.number | PARTS) + 1
        self.begin_part()

    def begin_part(self) -> None:
        """From here on an exception refuses the call. Creates of earlier parts stand."""
        self.may_refuse = True
        self._commits = self._world._commits

    def round_has_begun(self) -> None:
        self.may_refuse = False
        self.has_begun = True

    # --- on the refusing rank ------------------------------------------------------------------------------------

    def refuse(self, error: BaseException) -> None:
        """Refuses the present call because of an error. If the library has refused the create, that was the commit."""
        if not self.has_begun:
            self.number = _call_of(self.number)  # the other ranks may have no parts, or be in the first one
        cause = error if isinstance(error, Error) else error.__cause__
        is_ours = isinstance(cause, Error)
        text = cause.text if is_ours else f"{type(error).__name__}: {error}"
        try:
            self._tell_all()
            if self._world._commits == self._commits:
                self._world._refuse(status_number(cause.status if is_ours else "LSCHED_ERR_ARGUMENT"), text)
        except Error:
            pass  # the group was closed: no rank waits for this one
        self._settle(self.number)

    def _tell_all(self) -> None:
        payload = torch.tensor([self.number])
        for rank in range(self._world.size):
            if rank != self._world.rank:
                self._box._send(rank, TAG, payload.data_ptr(), payload.nbytes, payload)

    # --- on the other ranks --------------------------------------------------------------------------------------

    def wait(self, ticket: Any, limit: float, number: int) -> None:
        """Waits for a round of a call. Raises an Error of the wait, or DistBackendError if the call was refused."""
        until = time.monotonic() + limit
        while True:
            left = max(0.0, until - time.monotonic())
            try:
                return ticket.wait(min(SLICE, left))
            except Timeout:
                self.look(number)
                if left <= SLICE:
                    raise
            except Error as error:
                self.settle_failed_create(error, ticket.schedule, number)
                raise

    def look(self, number: int) -> None:
        """Raises DistBackendError if another rank has refused this call, or an earlier one."""
        if waiter.is_current():
            return  # joining is left to the threads that make calls
        with self._lock:
            while (heard := self._next_message()) is not None:
                if heard > self._settled:
                    self._heard.add(heard)
            refused = min(self._heard, default=number + 1)
            if refused <= number:
                self._join(refused, number)

    def _next_message(self) -> int | None:
        if not self._box.is_open:
            return None
        payload = torch.tensor([0])
        message = self._box._receive(ANY_RANK, TAG, payload.data_ptr(), payload.nbytes, payload)
        if not message.test():
            try:
                message.cancel()
                return None
            except Error:  # the message has begun to move
                message.wait(self._limit)
        return int(payload)

    def _join(self, refused: int, number: int) -> None:
        """Commits a create, which fails on all ranks, and raises its failure.

        If this rank's part of the refused call has ended well, its later calls cannot be paired with those of the other
        ranks any more: then the group is given up.
        """
        made = Schedule(self._world, _core.barrier(self._world))
        try:
            made._create_wait(self._limit)
            reason = Error("a call was refused, and its create has not failed", "LSCHED_ERR_INTERNAL")
        except Error as error:
            reason = error
        made._abandon()
        self._settle(refused)
        if refused < _call_of(number) or reason.status not in _OF_CREATES:
            self._schedules.give_up(reason)
        raise as_torch_error(reason)

    # --- on all ranks --------------------------------------------------------------------------------------------

    def _settle(self, number: int) -> None:
        """Drops all schedules. Parts before the refused one end as usual; what this rank has begun since is void."""
        self.may_refuse = False
        self.number = self._settled = number | PARTS
        self._heard = {each for each in self._heard if each > self._settled}
        self._schedules.drop(number)

    def settle_failed_create(self, error: Error, schedule: Any, number: int) -> None:
        """Settles a call whose create has failed, which is so on all ranks."""
        if error.status in _OF_CREATES and _create_has_failed(schedule):
            with self._lock:
                if number > self._settled:
                    self._settle(number)

    def has_settled(self, place: Any, error: BaseException, keeps: Any) -> bool:
        """Whether the failure of a round was that of its call on all ranks, after which the group goes on."""
        self.may_refuse = False
        if isinstance(error, Error):
            self.settle_failed_create(error, place.schedule, self.number)
        if self._settled < self.number:
            return False
        place.cancel(keeps)
        return True

    def forget_messages(self) -> None:
        """Takes the messages about refused calls that nobody has looked for."""
        with self._lock:
            while self._next_message() is not None:
                continue


def _call_of(number: int) -> int:
    """The number of the call that a part belongs to."""
    return number & ~PARTS


def _create_has_failed(schedule: Any) -> bool:
    """Whether the ranks have not agreed upon the schedule."""
    try:
        schedule._create_wait(0.0)
    except Error as error:
        return error.status in _OF_CREATES
    return False


class Round:
    """A round of a call, as a Work waits for it."""

    __slots__ = ("_calls", "_ticket", "number", "_looks_at")

    def __init__(self, calls: Calls, ticket: Any) -> None:
        self._calls = calls
        self._ticket = ticket
        self.number = calls.number
        self._looks_at = time.monotonic() + SLICE

    def wait(self, timeout: float) -> None:
        self._calls.wait(self._ticket, timeout, self.number)

    def test(self) -> bool:
        try:
            if self._ticket.test():
                return True
        except Error as error:
            self._calls.settle_failed_create(error, self._ticket.schedule, self.number)
            raise
        if time.monotonic() >= self._looks_at:
            self._looks_at = time.monotonic() + SLICE
            self._calls.look(self.number)
        return False
