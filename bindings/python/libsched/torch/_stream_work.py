"""Work objects of collectives over tensors of a CUDA device, which run in the order of streams."""

from __future__ import annotations

import collections
import os
import threading
import time
import weakref
from datetime import timedelta
from typing import Any, Callable, Iterable

import torch

from .. import _world
from .._errors import Error
from . import _device
from ._compile import is_not_compiled
from ._work import Outcome, as_torch_error, seconds


@is_not_compiled
class StreamWork(Outcome):
    """A round in a stream, and the function `finish`. After the round, `finish` copies the result in a stream.

    wait() makes the current stream wait. The host waits only if a timeout is given. synchronize() and is_completed()
    describe the state that the host sees. If the round fails, the stream continues. The next call that checks the
    round, in most cases the group's next collective, raises the round's error.

    begun_in     the stream in which the round was started, on `device`
    temporaries  tensors that `finish` reads; kept, like the memory of the round, until they are not used any more
    sides        the streams in which futures wait
    """

    def __init__(self, ticket: Any, tensors: list[torch.Tensor], limit: float, device: torch.device, begun_in: Any,
                 finish: Callable[[], None] | None, temporaries: Iterable[Any], sides: _device.SideStreams) -> None:
        super().__init__(tensors)
        self._ticket = ticket
        self.limit = limit
        self.deadline = time.monotonic() + limit
        self._device = device
        self._begun_in = begun_in
        self._finish = finish
        self._temporaries = tuple(temporaries)
        self._finished: Any = None  # an event, once `finish` is in a stream
        self._behind: Any = None  # the last stream that waits for the round
        self._sides = sides
        self._lock = threading.Lock()

    # --- in the order of streams ---------------------------------------------------------------------------------

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Makes the current stream wait for the round.

        With a timeout the host waits, too, for at most that time. Raises DistBackendError if the round is known to have
        failed.
        """
        if seconds(timeout, 0) > 0:
            self._wait_in_host(seconds(timeout, 0))
        self._come_before(_device.current_stream(self._device))
        self.has_ended()
        return True

    def _come_before(self, stream: Any) -> None:
        """Makes `stream`, which must be the current stream, wait for the round.

        In the first of these calls, `finish` is put into the stream, behind the wait. In later calls, the stream waits
        for the end of `finish`.
        """
        with self._lock:
            ticket = self._ticket  # None if the host knows that the round has ended
            if stream == self._behind:
                return
            if self._finished is not None:
                stream.wait_event(self._finished)
            elif ticket is not None:
                try:
                    ticket.wait_on_stream(stream.cuda_stream)
                except Error as error:
                    raise as_torch_error(error)
            self._finish_in(stream)
            self._behind = stream

    def _finish_in(self, stream: Any) -> None:
        finish, temporaries = self._finish, self._temporaries
        self._finish = None
        if finish is None or self._error is not None:
            return
        try:
            finish()
        except Exception as error:  # for example no memory on the device
            self._error = error
            raise
        if stream != self._begun_in:  # the temporaries were allocated in the stream _begun_in
            for each in temporaries:
                each.record_stream(stream)
        self._finished = _device.event_in(stream)

    # --- as the host sees it -------------------------------------------------------------------------------------

    def synchronize(self) -> None:
        """Makes the host and the current stream wait until the tensors are complete.

        The host waits at most the operation's timeout.
        """
        self._wait_in_host(self.limit)
        self._come_before(_device.current_stream(self._device))
        if self._finished is not None:
            self._finished.synchronize()

    def _wait_in_host(self, limit: float) -> None:
        ticket = self._ticket
        if ticket is not None:
            try:
                ticket.wait(limit)
            except Error as error:
                raise as_torch_error(error)
        self.has_ended()

    def has_ended(self) -> bool:
        """Returns true if the round is over, even if `finish` has not run yet.

        Raises DistBackendError if the round has failed.
        """
        ticket = self._ticket
        if ticket is not None:
            try:
                if not ticket.test():
                    return False
            except Error as error:
                self._error = as_torch_error(_explained(ticket, error))
            self._ticket = None
        if self._error is not None:
            raise self._error
        if self._finish is None:
            # The round does not use the temporaries any more. The allocator knows which streams still use them.
            self._temporaries = ()
        return True

    def fail(self, error: Error) -> None:
        """Records the error of a round that was given up."""
        self._error = as_torch_error(error)
        self._ticket = None

    def is_completed(self) -> bool:
        try:
            if not self.has_ended():
                return False
        except RuntimeError:
            return True
        if self._finish is not None:
            self._come_before(_device.current_stream(self._device))
        return self._finished is None or self._finished.query()

    def get_future(self) -> torch.futures.Future:
        """Returns a future that is complete at once for the host. Streams that use its value wait for the round."""
        return _future_of(self, self._device, self._sides.of(self._device))


def _explained(ticket: Any, error: Error) -> Error:
    """Returns the error of wait(), which names the rank at fault. `error`, the error of test(), names no rank."""
    try:
        ticket.wait(0.0)
    except Error as explained:
        return explained
    return error


def _future_of(work: Any, device: torch.device, side: Any) -> torch.futures.Future:
    """Returns the future of an object with _come_before() and _value(). If the object has failed, the future fails."""
    ended: torch.futures.Future = _device.future(device)
    raised: list[Exception] = []

    def value(_: Any) -> list[torch.Tensor]:
        if raised:
            raise raised[0]
        return work._value()

    future = ended.then(value)
    with _device.cuda.stream(side):
        try:
            work._come_before(side)
        except Exception as error:  # from the library, or from copying the result
            raised.append(error)
        ended.set_result(None)
    return future


@is_not_compiled
class SeveralInStreams(Outcome):
    """Several works as one work. At least one work is a StreamWork, and all works are on one device."""

    def __init__(self, works: list[Any], tensors: list[torch.Tensor]) -> None:
        super().__init__(tensors)
        self._works = works

    def wait(self, timeout: timedelta | None = None) -> bool:
        for each in self._works:
            each.wait(timeout)
        return True

    def _come_before(self, stream: Any) -> None:
        for each in self._works:
            each._come_before(stream)

    def synchronize(self) -> None:
        for each in self._works:
            each.synchronize()

    def is_completed(self) -> bool:
        return all(each.is_completed() for each in self._works)

    def exception(self) -> Exception | None:
        return next((each.exception() for each in self._works if each.exception() is not None), None)

    def get_future(self) -> torch.futures.Future:
        first = self._works[0]
        return _future_of(self, first._device, first._sides.of(first._device))


# --- rounds that the host does not wait for -----------------------------------------------------------------------


class UnderWay:
    """A group's rounds in streams, in the order of calls. Keeps their memory alive and detects failures.

    The thread of `watcher` calls give_up(schedule, Timeout) for each round whose timeout has passed.
    """

    def __init__(self, give_up: Callable[[Any, Error], None]) -> None:
        self._works: collections.deque[StreamWork] = collections.deque()
        self._give_up = give_up
        self._lock = threading.Lock()
        self._failed: Exception | None = None

    def add(self, work: StreamWork) -> None:
        self._works.append(work)
        watcher.watch(self)

    def look(self) -> None:
        """Releases the memory of rounds that are over. Raises the error of a failed round, once."""
        self._let_go()
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def _let_go(self) -> None:
        with self._lock:
            works = self._works
            while works:
                try:
                    if not works[0].has_ended():
                        return
                except RuntimeError as error:
                    self._failed = self._failed or error
                works.popleft()

    def watch(self, now: float) -> None:
        """Gives up rounds whose timeout has passed, so that no stream waits forever.

        Releases the memory of rounds that are over.
        """
        self._let_go()
        for work in list(self._works):
            ticket = work._ticket
            if now < work.deadline or ticket is None:
                continue
            try:
                ticket.wait(0.0)
            except Error as error:
                work.fail(error)
                self._give_up(ticket.schedule, error)

    def forget(self) -> None:
        self._works.clear()


class _Watcher:
    """Checks all groups' rounds in streams once a second, in a thread that starts with the first round."""

    def __init__(self) -> None:
        self._all: weakref.WeakSet[UnderWay] = weakref.WeakSet()
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, rounds: UnderWay) -> None:
        if self._thread is None or rounds not in self._all:
            self._all.add(rounds)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="libsched-watcher", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._ends.wait(_TURN):
            for rounds in list(self._all):
                rounds.watch(time.monotonic())

    def stop(self) -> None:
        self._ends.set()
        if self._thread is not None:
            self._thread.join(1.0)

    def forget(self) -> None:
        """Resets the watcher in a child of fork(), because the child does not have the watcher's thread."""
        self.__init__()  # type: ignore[misc]


_TURN = 1.0  # seconds

watcher = _Watcher()
_world._at_end.append(watcher.stop)
os.register_at_fork(after_in_child=watcher.forget)
