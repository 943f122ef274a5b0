"""Waits of the tests, and the delays that tests are about. No other module of the tests calls time.sleep.

Programs of ranks import this module, also programs of a process without libsched (torch/conformance_worker.py).
"""

from __future__ import annotations

import os
import time

LIMIT = 30.0
EVENTS = "LSCHED_TEST_EVENTS"  # the variable with the directory of SharedEvents


def wait_until(condition, limit: float = LIMIT) -> None:
    """Blocks until condition() is true. Raises TimeoutError after `limit` seconds."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"a condition did not become true within {limit} s")
        time.sleep(0.001)


def compute_for(seconds: float) -> None:
    """Stands for arithmetic that takes `seconds` seconds. With 0, only lets other threads run."""
    time.sleep(seconds)


def be_late(seconds: float) -> None:
    """Delays a rank that has to act later than the others."""
    time.sleep(seconds)


def arrive_at(due: float) -> None:
    """Returns at a time of time.monotonic(), to within some microseconds."""
    time.sleep(max(0.0, due - time.monotonic() - 1e-4))
    while time.monotonic() < due:
        pass


def is_awaited(message) -> bool:
    """Returns true if another thread waits for a message, which must not have ended."""
    import libsched

    try:
        message.wait(0)
    except libsched.Timeout as error:
        return "another thread waits" in error.text
    raise AssertionError("the message has ended")


class SharedEvents:
    """Events of all processes of one test. An event is a file, so it outlives the process that has set it."""

    def __init__(self) -> None:
        self._directory = os.environ[EVENTS]

    def set(self, name: str) -> None:
        open(os.path.join(self._directory, name), "w").close()

    def is_set(self, name: str) -> bool:
        return os.path.exists(os.path.join(self._directory, name))

    def wait(self, *names: str, limit: float = LIMIT) -> None:
        """Blocks until all these events are set. Raises TimeoutError after `limit` seconds."""
        wait_until(lambda: all(self.is_set(name) for name in names), limit)

    def meet(self, rank: int, ranks: int) -> None:
        """Blocks until all ranks have called meet(), without a message between them. A process may call meet() once."""
        self.set(f"rank {rank}")
        self.wait(*(f"rank {each}" for each in range(ranks)))
