"""Rounds and messages that fail if another rank has sent less data than this rank expects.

Without this check, the rest of the tensor would keep old elements. Blocks and messages that are too long are refused by
the library.
"""

from __future__ import annotations

from typing import Any, Callable

import torch

from .._errors import BoundsError, Error


class _Expected:
    """A ticket or a message, with a check of the received length after each successful wait."""

    __slots__ = ("_awaited",)

    def __init__(self, awaited: Any) -> None:
        self._awaited = awaited

    def wait(self, timeout: float) -> None:
        """Raises BoundsError if too little data was received, and the errors of the ticket or message."""
        self._awaited.wait(timeout)
        self._compare()

    def test(self) -> bool:
        """Returns true if the ticket or message has ended. Raises as wait() does."""
        if not self._awaited.test():
            return False
        self._compare()
        return True

    def _compare(self) -> None:
        raise NotImplementedError


class ExpectedBlocks(_Expected):
    """The ticket of an all_to_all.

    expected, received   number of elements from each rank; the library writes `received` before the round ends
    give_up(error)       closes the group to further calls, because other ranks do not know of the failure
    """

    __slots__ = ("_expected", "_received", "_give_up")

    def __init__(self, ticket: Any, expected: torch.Tensor, received: torch.Tensor,
                 give_up: Callable[[BaseException], None]) -> None:
        super().__init__(ticket)
        self._expected = expected
        self._received = received
        self._give_up = give_up

    @property
    def schedule(self) -> Any:
        return self._awaited.schedule

    def _compare(self) -> None:
        if torch.equal(self._expected, self._received):
            return
        rank = int((self._expected != self._received).nonzero()[0])
        error = BoundsError(f"rank {rank} has sent a block of {int(self._received[rank])} elements to this rank, which "
                            f"expects {int(self._expected[rank])}", "LSCHED_ERR_BOUNDS", rank)
        self._give_up(error)
        raise error


class SentMessage(_Expected):
    """A message to another rank. The receiver checks the length."""

    __slots__ = ()

    @property
    def rank(self) -> int:
        """The rank that has sent or that receives the message."""
        return self._awaited.rank

    def give_up(self, _: Exception) -> bool:
        """Cancels the message after its timeout.

        Returns false if the transfer has begun, or if another thread waits for the message. In both cases the message
        ends later.
        """
        try:
            self._awaited.cancel()
        except Error:
            return False
        return True

    def _compare(self) -> None:
        pass


class ExpectedMessage(SentMessage):
    """A message from another rank that must fill a tensor of `bytes` bytes."""

    __slots__ = ("_bytes",)

    def __init__(self, message: Any, bytes: int) -> None:
        super().__init__(message)
        self._bytes = bytes

    def _compare(self) -> None:
        message = self._awaited
        if message.bytes != self._bytes:
            raise BoundsError(f"a message from rank {message.rank} with tag {message.tag} has {message.bytes} bytes, "
                              f"but the tensor for it has {self._bytes}", "LSCHED_ERR_BOUNDS", message.rank)
