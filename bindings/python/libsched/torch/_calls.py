"""The collective calls of a group, and the refusal of a call on all ranks.

The n-th commit of each rank (a create, or a refusal) is paired with the n-th commit of every other rank. A call commits
one create if its schedule is new, and no create if the schedule exists already. In both cases all ranks do the same. A
rank that refuses call k sends the number k to all other ranks, and commits a create that fails (the refusal). If the
library itself has made the create of the call fail, that create is the refusal. Every other rank must make exactly one
commit that is paired with the refusal. This commit depends on the state of the rank:

- The rank has not begun call k. It keeps the message until it begins call k. Then one of the next cases applies.
- The rank is in call k, and the create of the call is not agreed upon. This create is the commit. The rank does not
  look for messages.
- The rank is in call k, and the create of the call has failed. This create is the commit, and the call is settled.
- The rank is in call k, the ranks have agreed upon the create, and the round waits. The commit is a new create, which
  the rank makes once it finds the message.
- The rank is in a later call, and has made no commit since call k. The commit is a new create, too. The later rounds
  are void.
- The rank is in a later call, and has made one commit since call k. The commit is the create of the later call, which
  fails.
- The rank has made more commits since call k, or call k is over. The refusal cannot be paired any more, and the group
  is given up.

A rank does not look for messages before the ranks have agreed upon the create of the rank's call. While a third rank is
late, the create is still in progress. A second commit of this rank would then be paired with the next commit of the
refusing rank. A rank that waits in a round looks for messages every SLICE seconds.

A settled call has been refused on all ranks. Each rank then drops all schedules, and begins its next call with one more
commit (_commit_agreement). This commit creates a schedule whose capacity is the number of the refused call. The create
fails if ranks have settled different calls, or if a rank has not settled any call. In that case no result of a later
call is reported, and the group is closed to further calls ("given up"). So wrongly paired commits cannot lead to wrong
results.
"""

from __future__ import annotations

import functools
import threading
import time
from array import array
from typing import Any, Callable, TypeVar

from .. import _core
from .._errors import Cancelled, Error, Timeout, Unsupported, status_number
from .._messages import ANY_RANK
from .._schedule import Schedule
from .._words import DTYPES
from ._work import Callbacks, as_torch_error, waiter

PARTS = 2**20 - 1  # the low bits of a call's number are the index of the part
TAG = 2**31 - 1  # tag of the messages about refused calls
SLICE = 0.1  # seconds between two looks for messages during a wait
# Statuses of a failed create. BOUNDS is not in the set, because rounds fail with BOUNDS.
_OF_CREATES = {"LSCHED_ERR_ARGUMENT", "LSCHED_ERR_MISMATCH", "LSCHED_ERR_UNMATCHED", "LSCHED_ERR_CONSTRAINT",
               "LSCHED_ERR_UNSUPPORTED", "LSCHED_ERR_NOMEM"}

_Method = TypeVar("_Method", bound=Callable[..., Any])


def collective_call(method: _Method) -> _Method:
    """A decorator for collective methods of a Group: if a method raises on one rank, the call fails on all ranks."""

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        calls = self._calls
        if calls.is_under_way:  # this is a part of another call, or a callback while another thread is in a call
            calls.expect_order_of_callbacks()
            calls.begin()
            return method(self, *arguments, **options)
        calls.begin()
        calls.is_under_way = True
        calls.has_begun = False
        try:
            calls.expect_order_of_callbacks()
            return method(self, *arguments, **options)
        except BaseException as error:
            if calls.may_refuse:
                calls.refuse(error)
            raise
        finally:
            calls.is_under_way = False

    call._is_collective = True  # type: ignore[attr-defined]  # read by the test that lists all collective calls
    return call  # type: ignore[return-value]


class Calls:
    """Numbers the collective calls of a group, and the parts of calls, in the same way on all ranks.

    number        number of this rank's last call; the low bits are the index of the part
    outside       position of the last call that began outside callbacks
    is_under_way  true while this rank is in a call
    may_refuse    true if an exception must refuse the last call, because this rank has not started the call's round
    """

    def __init__(self, world: Any, box: Any, schedules: Any, limit: float) -> None:
        self._world = world
        self._box = box
        self._schedules = schedules
        self._limit = limit
        self.number = 0
        self.outside = 0
        self.is_under_way = False
        self.may_refuse = False
        self.has_begun = False  # true once a part of the present call has begun its round
        self._commits = 0  # number of this rank's commits when the present part of the call began
        self._settled = 0  # the last refused call
        self._heard: set[int] = set()  # numbers of refused calls that this rank has not reached
        self._must_agree = False  # the ranks must agree on the last refused call before the next commit
        # Schedules that must be agreed upon before a result of the present call is reported.
        self.agreements: tuple[Schedule, ...] = ()
        self._lock = threading.RLock()

    def begin(self) -> None:
        """Begins the next call, or the next part of the present call."""
        if self._must_agree:
            self._commit_agreement()
        self.number = self.number + 1 if self.is_under_way else (self.number | PARTS) + 1
        self.outside = max(self.outside, self.position())
        self.begin_part()

    def position(self) -> int:
        """Returns the number of the present call.

        In a callback of a work of this group, returns the position of that work.
        """
        outer = Callbacks.work()
        return outer.position if outer is not None and outer.calls is self else self.number

    def expect_order_of_callbacks(self) -> None:
        """Raises DistBackendError in a callback of a Work if the group has begun another call after that Work.

        Callbacks run when works end, and that time differs between ranks. If two ranks begin the call of the callback
        and the other call in opposite orders, the calls are paired wrongly.
        """
        if self.position() < self.outside:
            raise as_torch_error(Unsupported(
                "a callback starts a collective, but this group has already started another collective after the call "
                "that returned the future of the callback. Ranks could start these two collectives in different "
                "orders: start collectives outside callbacks, or use a single DDP bucket (bucket_cap_mb)",
                "LSCHED_ERR_UNSUPPORTED"))

    def begin_part(self) -> None:
        """Begins a part of a call.

        After this function an exception refuses the call. Creates of earlier parts remain valid.
        """
        self.may_refuse = True
        self._commits = self._world._commits

    def commits(self) -> int:
        """Returns the number of commits that this rank has made."""
        return self._world._commits

    def round_has_begun(self) -> None:
        self.may_refuse = False
        self.has_begun = True

    # --- on the refusing rank ------------------------------------------------------------------------------------

    def refuse(self, error: BaseException) -> None:
        """Refuses the present call because of an error.

        If the library has refused the create of the call, that create is the commit of the refusal.
        """
        if not self.has_begun:
            self.number = _call_of(self.number)  # other ranks may not have begun any part
        cause = error if isinstance(error, Error) else error.__cause__
        text = cause.text if isinstance(cause, Error) else f"{type(error).__name__}: {error}"
        status = cause.status if isinstance(cause, Error) else "LSCHED_ERR_ARGUMENT"
        if status == "LSCHED_ERR_BOUNDS":
            status = "LSCHED_ERR_ARGUMENT"  # with the original status, other ranks would not recognise a failed create
        try:
            self._tell_all()
            if self._world._commits == self._commits:
                self._world._refuse(status_number(status), text)
        except Error:
            pass  # the group was closed, so no rank waits for this rank
        self._settle(self.number)

    def _tell_all(self) -> None:
        # Uses no tensor, because a tensor that is made under a transform of torch has no memory.
        payload = array("q", [self.number])
        where, _ = payload.buffer_info()
        for rank in range(self._world.size):
            if rank != self._world.rank:
                self._box._send(rank, TAG, where, payload.itemsize, payload)

    # --- on the other ranks --------------------------------------------------------------------------------------

    def look(self, number: int, commits: int) -> None:
        """Raises DistBackendError if another rank has refused call `number`, or an earlier call.

        The ranks must have agreed upon the schedule of the call. `commits` is the number of commits of this rank when
        the round of the call began.
        """
        if waiter.is_current():
            return  # only threads that make calls may join a refusal
        with self._lock:
            while (heard := self._next_message()) is not None:
                if heard > self._settled:
                    self._heard.add(heard)
            refused = min(self._heard, default=number + 1)
            if refused <= number:
                self._join(refused, number, self._world._commits - commits)

    def _next_message(self) -> int | None:
        if not self._box.is_open:
            return None
        payload = array("q", [0])
        where, _ = payload.buffer_info()
        message = self._box._receive(ANY_RANK, TAG, where, payload.itemsize, payload)
        if not message.test():
            try:
                message.cancel()
                return None
            except Error:  # the transfer of the message has begun
                message.wait(self._limit)
        return payload[0]

    def _join(self, refused: int, number: int, later_commits: int) -> None:
        """Makes the commit that is paired with the refusal of a call, and raises the failure.

        If the refused call has ended without an error on this rank, gives the group up. In that case, this rank's later
        calls can no longer be paired with the calls of the other ranks.
        """
        if later_commits == 0:
            reason = self._failure_of_join()
        else:
            reason = Cancelled("another rank has refused the arguments of this call: the error of that rank has the "
                               "reason", "LSCHED_ERR_CANCELLED")
        self._settle(refused)
        is_lost = refused < _call_of(number) or later_commits > 1
        if is_lost or later_commits == 0 and reason.status not in _OF_CREATES:
            self._schedules.give_up(reason)
        raise as_torch_error(reason)

    def _failure_of_join(self) -> Error:
        """Commits a create that fails on all ranks. Returns the failure."""
        made = Schedule(self._world, _core.barrier(self._world))
        try:
            made._create_wait(self._limit)
            return Error("internal error: a call was refused, but the creation of its schedule did not fail",
                         "LSCHED_ERR_INTERNAL")
        except Error as error:
            return error
        finally:
            made._abandon()

    # --- on all ranks --------------------------------------------------------------------------------------------

    def _settle(self, number: int) -> None:
        """Drops all schedules, because call `number` was refused.

        Parts before the refused part end as usual. Later rounds of this rank are void.
        """
        self.may_refuse = False
        self.number = self._settled = number | PARTS
        self.outside = min(self.outside, self.number)
        self._must_agree = True
        self._heard = {each for each in self._heard if each > self._settled}
        self._schedules.drop(number)

    def settle_failed_create(self, error: Error, schedule: Any, number: int, commits: int | None = None) -> None:
        """Settles a call whose create has failed. If a create fails on one rank, it fails on all ranks.

        A failure that names a round is not the failure of a create, and need not occur on other ranks. `commits` is the
        number of commits of this rank when the round began; None: there are no later commits.
        """
        if error.round is None and error.status in _OF_CREATES and _create_has_failed(schedule):
            with self._lock:
                try:
                    self.expect_agreed(self.agreements, 0.0)
                except Error:
                    pass  # the ranks have not agreed yet, or the group was given up, so that the next call raises
                if number > self._settled:
                    has_later_commits = commits is not None and self._world._commits != commits
                    self._settle(number)
                    if has_later_commits:
                        self._schedules.give_up(error)

    def has_settled(self, place: Any, error: BaseException, keeps: Any) -> bool:
        """Returns true if the round has failed because its call has failed on all ranks. The group then continues."""
        self.may_refuse = False
        if isinstance(error, Error):
            self.settle_failed_create(error, place.schedule, self.number)
        if self._settled < self.number:
            return False
        place.cancel(keeps)
        return True

    def give_up_round(self, schedule: Any, error: BaseException) -> None:
        """Cancels a round after its timeout, in any thread, and closes the group to further calls."""
        try:
            schedule.cancel()
        except Error:
            pass  # a peer still reads the memory, which the work or the world keeps
        self._schedules.give_up(error)

    def _commit_agreement(self) -> None:
        """Commits a create that fails unless all ranks have settled the same refused call."""
        self._must_agree = False
        try:
            made = self.committed_number(self._settled // (PARTS + 1))
        except Error as error:
            self._schedules.give_up(error)
            return
        self.agreements = (*self.agreements, made)

    def committed_number(self, number: int) -> Schedule:
        """Commits the create of a schedule that is never started. The create fails if `number` differs between ranks.

        `number` becomes the capacity of the schedule. The capacity must be the same on all ranks, and no memory is
        allocated for it. `number` is at least 0, and its low 32 bits are compared.
        """
        request = _core.Request()
        request.capacity, request.dtype = number % 2**32 + 1, DTYPES["uint8"]
        return Schedule(self._world, _core.collective(self._world, "gatherv", 0, 0, request))

    def expect_agreed(self, agreements: tuple[Schedule, ...], limit: float | None = None) -> None:
        """Raises Error, and gives the group up, if the ranks disagree about the call that was refused.

        Does not block if a round of a later create has run, because creates are agreed upon in their order. `limit` is
        in seconds; None: the group's timeout.
        """
        with self._lock:
            for made in agreements:
                if made not in self.agreements:
                    continue
                try:
                    made._create_wait(self._limit if limit is None else limit)
                except Timeout:
                    raise
                except Error as error:
                    reason = Error(f"the ranks disagree about the call that was refused: {error.text}", error.status,
                                   error.rank)
                    self._schedules.give_up(reason)
                    raise reason from error
                self.agreements = tuple(each for each in self.agreements if each is not made)
                made._abandon()

    def forget_messages(self) -> None:
        """Receives and drops the remaining messages about refused calls."""
        with self._lock:
            while self._next_message() is not None:
                continue


def _call_of(number: int) -> int:
    """Returns the number of the call to which a part belongs."""
    return number & ~PARTS


def _create_has_failed(schedule: Any) -> bool:
    """Returns true if the creation of the schedule has failed."""
    try:
        schedule._create_wait(0.0)
    except Error as error:
        return error.status in _OF_CREATES
    return False


def has_failed(schedule: Any) -> bool:
    """Returns true if the creation or a round of the schedule has failed, perhaps on another rank."""
    try:
        schedule._create_wait(0.0)
    except Timeout:
        return False
    except Error:
        return True
    return False


def _stands(schedule: Any) -> bool:
    """Returns true if the ranks have agreed upon the schedule, and the schedule has not failed."""
    try:
        schedule._create_wait(0.0)
    except Error:
        return False
    return True


class Round:
    """A round of a call, with the methods that a Work uses. Must be created during the call, before a later commit."""

    __slots__ = ("_calls", "_ticket", "number", "_commits", "_agreements", "_looks_at")

    def __init__(self, calls: Calls, ticket: Any) -> None:
        self._calls = calls
        self._ticket = ticket
        self.number = calls.number
        self._commits = calls.commits()
        self._agreements = calls.agreements
        self._looks_at = time.monotonic() + SLICE

    def wait(self, timeout: float) -> None:
        """Waits for the round. Raises an Error of the wait, or DistBackendError if the call was refused."""
        until = time.monotonic() + timeout
        while True:
            left = max(0.0, until - time.monotonic())
            try:
                self._ticket.wait(min(SLICE, left))
                break
            except Timeout:
                self._look()
                if left <= SLICE:
                    raise
            except Error as error:
                self._settle(error)
                raise
        self._calls.expect_agreed(self._agreements)

    def test(self) -> bool:
        try:
            has_ended = self._ticket.test()
        except Error as error:
            self._settle(error)
            raise
        if has_ended:
            self._calls.expect_agreed(self._agreements)
        elif time.monotonic() >= self._looks_at:
            self._looks_at = time.monotonic() + SLICE
            self._look()
        return has_ended

    def give_up(self, error: Exception) -> bool:
        """Cancels the round after its timeout, and closes the group to further calls. Returns true."""
        self._calls.give_up_round(self._ticket.schedule, error)
        return True

    def _look(self) -> None:
        if _stands(self._ticket.schedule):
            self._calls.look(self.number, self._commits)

    def _settle(self, error: Error) -> None:
        self._calls.settle_failed_create(error, self._ticket.schedule, self.number, self._commits)
