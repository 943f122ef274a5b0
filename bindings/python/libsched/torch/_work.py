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
from .._errors import Error, Timeout, Unsupported
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

    Its __cause__ is the libsched.Error.
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

        A callback must raise the error, because C++ treats an exception that Python sets in a future as a value.
        """
        error = self.exception()
        if error is not None:
            raise error
        return self.value


class FutureOrder:
    """The order of a group's collective calls whose futures were requested outside callbacks.

    Callbacks run when works end, and that order differs between ranks. A callback of a Work may begin a collective
    after the group has begun a later one. If another rank begins these two collectives in the opposite order, the
    collectives are paired wrongly.
    """

    _running = threading.local()  # `work`: the work whose callbacks this thread runs
    callbacks = 0  # number of threads that run callbacks; changed only with the waiter's lock

    def __init__(self) -> None:
        self._last = 0

    def add(self, work: Work) -> None:
        outer = getattr(self._running, "work", None)
        if outer is not None and outer.order is self:
            work.number = outer.number
        else:
            self._last += 1
            work.number = self._last

    def expect_kept(self) -> None:
        """Raises DistBackendError in a callback of a Work if the group has begun another Work after that Work."""
        outer = getattr(self._running, "work", None)
        if outer is not None and outer.order is self and outer.number < self._last:
            raise as_torch_error(Unsupported(
                "a callback of a future starts a collective after this group has started another collective, so ranks "
                "could start them in different orders. Start collectives outside callbacks, or use a single DDP bucket "
                "(bucket_cap_mb)", "LSCHED_ERR_UNSUPPORTED"))

    @classmethod
    @contextlib.contextmanager
    def in_callbacks_of(cls, work: Work) -> Iterator[None]:
        cls._running.work = work
        try:
            yield
        finally:
            cls._running.work = None


@is_not_compiled
class Work(Outcome):
    """A round or a message, and the function `finish`, which runs after the end. `limit` is the timeout in seconds.

    If `waited` is None, the operation has already ended. `order` is the FutureOrder of a collective's group.
    """

    order: FutureOrder | None = None
    number = 0  # position in `order`

    def __init__(self, waited: Any, tensors: list[torch.Tensor], limit: float,
                 finish: Callable[[], None] | None = None) -> None:
        super().__init__(tensors)
        self._waited = waited
        self.limit = limit
        self._finish = finish
        self._lock = threading.Lock()

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Blocks until the operation has ended.

        Other threads run meanwhile. Raises DistBackendError, which names the rank.
        """
        waited = self._waited
        if waited is not None:
            try:
                waited.wait(seconds(timeout, self.limit))
            except RuntimeError as error:  # an Error, or the refusal of the call by another rank
                self._error = as_torch_error(error) if isinstance(error, Error) else error
                raise self._error
            self._end()
        return True

    @property
    def call(self) -> int:
        """The number of the collective call while the round is in flight, otherwise 0."""
        return getattr(self._waited, "number", 0)

    def has_ended(self) -> bool:
        """Returns true if this rank knows that the operation has ended."""
        return self._waited is None

    def _end(self) -> None:
        """Runs `finish` once, in the thread that first detects the end."""
        with self._lock:
            if self._waited is None:
                return
            self._source = getattr(self._waited, "rank", -1)
            finish, self._finish, self._waited = self._finish, None, None
            self._error = None  # drops the Timeout of an earlier, shorter wait
            if finish is not None:
                finish()

    def _ends_in(self, turn: float, deadline: float) -> bool:
        """Waits at most `turn` seconds. Returns true if the operation has ended, or if its deadline has passed."""
        try:
            if self._waited is not None:
                self._waited.wait(turn)
        except RuntimeError as error:  # an Error, or the error of one of several works
            cause = error if isinstance(error, Error) else error.__cause__
            if isinstance(cause, Timeout) and time.monotonic() < deadline:
                return False
            self._error = as_torch_error(error) if error is cause else error
            return True
        try:
            self._end()
        except Exception as error:  # from copying back
            self._error = error
        return True

    def is_completed(self) -> bool:
        if self._waited is not None:
            try:
                if not self._waited.test():
                    return False
            except Error as error:
                self._error = as_torch_error(error)
                return True
            except RuntimeError as error:  # from one of several works
                self._error = error
                return True
            self._end()
        return True

    def synchronize(self) -> None:
        self.wait()

    def get_future(self) -> torch.futures.Future:
        """Returns a future that holds the tensors once the operation has ended, even if no thread waits for it."""
        ended: torch.futures.Future = torch.futures.Future()
        future = ended.then(lambda _: self._value())
        if self.order is not None:
            self.order.add(self)
        if self.is_completed():
            ended.set_result(None)
        else:
            waiter.put(ended, self)
        return future


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
            if not work._ends_in(_TURN, deadline):
                pending.rotate(-1)  # another work may have ended
                continue
            pending.popleft()
            with self._lock:
                self._thread = None
                FutureOrder.callbacks += 1
            for each in pending:
                self._works.put(each)
            pending.clear()
            if not self._works.empty():
                self._ensure()
            with FutureOrder.in_callbacks_of(work):
                future.set_result(None)
            with self._lock:
                FutureOrder.callbacks -= 1
                if self._thread is not None:
                    return  # another thread waits for works now
                self._thread = threading.current_thread()


_TURN = 0.005  # seconds of a wait for one work, before the waiter waits for the next work

waiter = _Waiter()
_world._at_end.append(waiter.stop)
os.register_at_fork(after_in_child=waiter.forget)


class Several:
    """Several works as one."""

    def __init__(self, works: list[Work]) -> None:
        self._works = works

    def wait(self, timeout: float) -> None:
        for work in self._works:
            work.wait(timedelta(seconds=timeout))

    def test(self) -> bool:
        if not all(work.is_completed() for work in self._works):
            return False
        for work in self._works:
            work._value()
        return True
