"""What a collective of the backend returns: work that is under way."""

from __future__ import annotations

import queue
import threading
from datetime import timedelta
from typing import Any, Callable

import torch
from torch._C._distributed_c10d import Work as TorchWork
from torch.distributed import DistBackendError

from .._errors import Error, Timeout


def seconds(limit: timedelta | None, otherwise: float) -> float:
    """A timeout of torch's, of which 0 and less mean: none was given."""
    given = 0.0 if limit is None else limit.total_seconds()
    return given if given > 0 else otherwise


def as_torch_error(error: Error) -> DistBackendError:
    """What torch's users catch: a RuntimeError that names the rank; __cause__ is the libsched.Error."""
    after = " (the operation's timeout has passed)" if isinstance(error, Timeout) else ""
    told = DistBackendError(str(error) + after)
    told.__cause__ = error
    return told


class Work(TorchWork):
    """A round, or a message, and what is left to do once it has ended. `limit` is the operation's timeout, seconds.

    `waited` None: the operation has ended before.
    """

    def __init__(self, waited: Any, tensors: list[torch.Tensor], limit: float,
                 finish: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._waited = waited
        self._tensors = tensors
        self._limit = limit
        self._finish = finish
        self._error: Exception | None = None
        self._lock = threading.Lock()
        self._source = -1

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Block until it has ended, with other threads running; raises DistBackendError, which names the rank."""
        waited = self._waited
        if waited is not None:
            try:
                waited.wait(seconds(timeout, self._limit))
            except Error as error:
                self._error = as_torch_error(error)
                raise self._error
            self._end()
        return True

    def _end(self) -> None:
        """Once, by whichever thread sees the end first."""
        with self._lock:
            if self._waited is None:
                return
            self._source = getattr(self._waited, "rank", -1)
            if self._finish is not None:
                self._finish()
            self._finish = None
            self._waited = None
            self._error = None  # of a wait that was shorter

    def is_completed(self) -> bool:
        if self._waited is not None:
            try:
                if not self._waited.test():
                    return False
            except Error as error:
                self._error = as_torch_error(error)
                return True
            except RuntimeError as error:  # of one of several
                self._error = error
                return True
            self._end()
        return True

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Exception | None:
        return self._error

    def result(self) -> list[torch.Tensor]:
        return self._tensors

    def synchronize(self) -> None:
        self.wait()

    def _source_rank(self) -> int:
        return self._source

    source_rank = _source_rank

    def get_future(self) -> torch.futures.Future:
        """A future that holds the tensors once it has ended, whether or not anybody waits."""
        ended: torch.futures.Future = torch.futures.Future()
        future = ended.then(lambda _: self._value())
        if self.is_completed():
            ended.set_result(None)
        else:
            waiter.put(ended, self)
        return future

    def _value(self) -> list[torch.Tensor]:
        """Raises in a callback: an exception that is set from Python, C++ takes for a value."""
        if self._error is not None:
            raise self._error
        return self._tensors


class _Waiter:
    """A thread that waits for works whose future somebody has asked for, one after the other; it sleeps meanwhile."""

    def __init__(self) -> None:
        self._works: queue.SimpleQueue = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, future: torch.futures.Future, work: Work) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="libsched-futures", daemon=True)
            self._thread.start()
        self._works.put((future, work))

    def _run(self) -> None:
        while True:
            future, work = self._works.get()
            try:
                work.wait()
            except Exception as error:
                work._error = work._error or error
            future.set_result(None)


waiter = _Waiter()


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
