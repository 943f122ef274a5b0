"""The Work objects that collectives of the backend return."""

from __future__ import annotations

import collections
import contextlib
import os
import queue
import threading
import time
import weakref
from datetime import timedelta
from typing import Any, Callable, Iterator

import torch
from torch._C._distributed_c10d import Work as TorchWork
from torch.distributed import DistBackendError

from .. import _world
from .._errors import Error, Timeout
from ._compile import is_not_compiled


_UNSET = -0.001  # seconds: torch's value for a timeout that was not given
LONGEST = 1e9  # seconds, 31 years


def saturated(limit: timedelta) -> float:
    """Returns the seconds of a timeout, at most LONGEST.

    A timeout of many years has overflowed in torch, and is negative.
    """
    given = limit.total_seconds()
    return LONGEST if given < _UNSET else min(given, LONGEST)


def seconds(limit: timedelta | None, otherwise: float) -> float:
    """Returns the seconds of a timeout, or `otherwise` if none was given."""
    given = 0.0 if limit is None else saturated(limit)
    return given if given > 0 else otherwise


def as_torch_error(error: Error) -> DistBackendError:
    """Returns the error in the class that users of torch catch: a RuntimeError that names the rank.

    The __cause__ of the result is the libsched.Error.
    """
    after = " (the operation's timeout has passed)" if isinstance(error, Timeout) else ""
    told = DistBackendError(str(error) + after)
    told.__cause__ = error
    return told


@is_not_compiled
class Outcome(TorchWork):
    """A torch Work. When the operation has ended, the Work contains the tensors or an error."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        super().__init__()
        self._tensors = tensors
        self.value = tensors  # value of the future
        self._error: Exception | None = None
        self._source = -1

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> Exception | None:
        return self._error

    def result(self) -> list[torch.Tensor]:
        return self._tensors

    def _source_rank(self) -> int:
        return self._source

    source_rank = _source_rank

    def _value(self) -> list[torch.Tensor]:
        """Returns the value of the future, or raises the error of the work.

        A callback must raise the error. If Python sets an exception in a future, C++ treats the exception as a value.
        """
        error = self.exception()
        if error is not None:
            raise error
        return self.value


class Callbacks:
    """The callbacks of futures. They run in threads of the waiter, or at once if the work has ended already."""

    threads = 0  # number of threads that run callbacks; changed only with the waiter's lock
    _running = threading.local()

    @classmethod
    def work(cls) -> Work | None:
        """Returns the work whose callbacks the calling thread, a thread of the waiter, runs; None in other threads."""
        return getattr(cls._running, "work", None)

    @classmethod
    @contextlib.contextmanager
    def of(cls, work: Work) -> Iterator[None]:
        cls._running.work = work
        try:
            yield
        finally:
            cls._running.work = None


@is_not_compiled
class Work(Outcome):
    """A round or a message (`waited`), and the function `finish`, which copies the result after the end.

    A work has ended once `finish` has run. If `waited` is None, the operation has already ended. `limit` is the timeout
    in seconds. Any thread may call any method.

    place     the place (_schedules.py) that keeps the work until the end, or None
    calls     the Calls of the group if this is a collective
    position  position of the collective in the order of the group's calls (Calls.position)
    """

    calls: Any = None
    position = 0
    place: Any = None
    _is_given_up = False

    def __init__(self, waited: Any, tensors: list[torch.Tensor], limit: float,
                 finish: Callable[[], None] | None = None) -> None:
        super().__init__(tensors)
        self._waited = waited
        self.limit = limit
        self._finish = finish
        self._lock = threading.Lock()  # held while `finish` runs, so that other threads wait for its end

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Blocks until the operation has ended.

        Other threads run meanwhile. If the operation fails, raises DistBackendError, which names the rank.
        """
        try:
            self._settle(seconds(timeout, self.limit))
        except Exception as error:
            self._record(error)
            raise
        return True

    def is_completed(self) -> bool:
        try:
            return self._poll()
        except Exception as error:
            self._record(error)
            return True

    @property
    def call(self) -> int:
        """The number of the collective call while the round is in flight, otherwise 0."""
        return getattr(self._waited, "number", 0)

    def has_ended(self) -> bool:
        """Returns true if this rank knows that the operation has ended."""
        return self._waited is None

    def is_given_up(self) -> bool:
        """Returns true if the operation was cancelled after a timeout, so that no wait can succeed."""
        return self._is_given_up

    def synchronize(self) -> None:
        self.wait()

    def get_future(self) -> torch.futures.Future:
        """Returns a future that holds the tensors once the operation has ended, even if no thread waits for it."""
        ended: torch.futures.Future = torch.futures.Future()
        future = ended.then(lambda _: self._value())
        if self.is_completed():
            ended.set_result(None)
        else:
            waiter.put(ended, self)
        return future

    def ends_in(self, turn: float, deadline: float) -> bool:
        """Waits at most `turn` seconds. Returns true if the operation has ended, or if its deadline has passed."""
        try:
            self._settle(turn)
        except Exception as error:
            if not isinstance(error.__cause__, Timeout):
                self._record(error)
            elif time.monotonic() < deadline and not self.is_given_up():
                return False
            else:
                self._give_up(error)
        return True

    def _settle(self, limit: float) -> None:
        """Waits for the end. Raises the error of the operation. Does not record a Timeout."""
        waited = self._waited
        if waited is not None:
            try:
                waited.wait(limit)
            except Error as error:
                raise as_torch_error(error)
            self._end()
        self._expect_success()

    def _poll(self) -> bool:
        """Returns true if the operation has ended. Raises the error of the operation."""
        waited = self._waited
        if waited is not None:
            try:
                if not waited.test():
                    return False
            except Error as error:
                raise as_torch_error(error)
            self._end()
        self._expect_success()
        return True

    def _expect_success(self) -> None:
        if self._error is not None:
            raise self._error

    def _end(self) -> None:
        """Runs `finish` in the first thread that detects the end. The other threads wait until `finish` has run."""
        with self._lock:
            if self._waited is None:
                return
            self._error = None  # drops the Timeout of an earlier, shorter wait
            if self._finish is not None:
                try:
                    self._finish()
                except Exception as error:
                    self._error = error
            self._source = getattr(self._waited, "rank", -1)
            if self.place is not None:
                self.place.work = None
            self._finish = self.place = None
            self._waited = None  # last, because other threads read it without the lock

    def _record(self, error: Exception) -> None:
        """Records the error of an operation that has not ended, as far as this rank knows."""
        with self._lock:
            if self._waited is not None:
                self._error = error

    def _give_up(self, error: Exception) -> None:
        """Cancels the operation after a timeout, so that the memory is not used any more, and all later waits fail.

        An operation that cannot be cancelled continues, and later waits may succeed.
        """
        with self._lock:
            if self._waited is not None:
                self._error = error
                if not self._waited.give_up(error):
                    return  # the operation continues, and later waits may succeed
                self._is_given_up = True
                self._finish = None
                self._given_up, self._waited = self._waited, None  # the place keeps memory that a peer may still read


@is_not_compiled
class Several(Work):
    """Several works as one work."""

    def __init__(self, works: list[Work], tensors: list[torch.Tensor], limit: float) -> None:
        super().__init__(None, tensors, limit)
        self._works = works
        self.calls, self.position = works[-1].calls, works[-1].position

    def exception(self) -> Exception | None:
        return next((each.exception() for each in self._works if each.exception() is not None), None)

    def has_ended(self) -> bool:
        return all(each.has_ended() for each in self._works)

    def is_given_up(self) -> bool:
        return any(each.is_given_up() for each in self._works)

    def _settle(self, limit: float) -> None:
        until = time.monotonic() + limit
        for each in self._works:
            each._settle(max(0.0, until - time.monotonic()))

    def _poll(self) -> bool:
        return all(each._poll() for each in self._works)

    def _record(self, error: Exception) -> None:
        """Records the error in the first work that has not ended, because a wait waits for the works in order."""
        for each in self._works:
            if not each.has_ended():
                return each._record(error)

    def _give_up(self, error: Exception) -> None:
        for each in self._works:
            each._give_up(error)


class _Waiter:
    """Completes the requested futures. A thread waits until a Work has ended, and then completes its future.

    A callback of a future may wait for another future. So a second thread waits for works while the first thread runs
    callbacks.
    """

    def __init__(self) -> None:
        self._works: queue.SimpleQueue = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: weakref.WeakSet = weakref.WeakSet()
        self._thread: threading.Thread | None = None  # the thread that is not in a callback

    def put(self, future: torch.futures.Future, work: Work) -> None:
        self._works.put((future, work, time.monotonic() + work.limit))
        self._ensure()

    def is_current(self) -> bool:
        """Returns true if the calling thread is a thread of the waiter."""
        return threading.current_thread() in self._threads

    def forget(self) -> None:
        """Resets the waiter in a child of fork(), because the child does not have the waiter's threads."""
        self.__init__()  # type: ignore[misc]

    def stop(self) -> None:
        """Ends the threads. Waits for callbacks, at most five seconds.

        A thread that still runs when the interpreter ends may abort the process: Python ends threads by unwinding their
        stacks, and torch's code on these stacks does not permit that.
        """
        self._works.put(None)
        until = time.monotonic() + 5
        while time.monotonic() < until:
            alive = [thread for thread in list(self._threads) if thread.is_alive()]  # a thread may have added another
            if not alive:
                return
            alive[0].join(until - time.monotonic())

    def _ensure(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="libsched-futures", daemon=True)
                self._threads.add(self._thread)
                self._thread.start()

    def _run(self) -> None:
        pending: collections.deque = collections.deque()
        while True:
            while not pending or not self._works.empty():
                pending.append(self._works.get())
            if pending[0] is None:
                self._works.put(None)  # for the threads that are in callbacks
                return
            future, work, deadline = pending[0]
            if not work.ends_in(_TURN, deadline):
                pending.rotate(-1)  # another work may have ended
                continue
            pending.popleft()
            with self._lock:
                self._thread = None
                Callbacks.threads += 1
            while pending:
                self._works.put(pending.popleft())
            if not self._works.empty():
                self._ensure()
            with Callbacks.of(work):
                future.set_result(None)
            with self._lock:
                Callbacks.threads -= 1
                if self._thread is not None:
                    return  # another thread waits for works now
                self._thread = threading.current_thread()
            del future, work  # they would keep the tensors until the next work


_TURN = 0.005  # seconds of a wait for one work, before the waiter waits for the next work

waiter = _Waiter()
_world._at_end.append(waiter.stop)
os.register_at_fork(after_in_child=waiter.forget)
