"""Messages between two ranks, outside schedules."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

from . import _core
from ._errors import ArgumentError, Error
from ._memory import Memory, look_at_host
from ._words import ITEM_BYTES

if TYPE_CHECKING:
    from ._world import World

Message = _core.Message
ANY_RANK = -1
ANY_TAG = -1


class Mailbox(_core.Mailbox):
    """A mailbox for messages of this rank. Messages between two ranks arrive in the order in which they were posted.

        with world.mailbox() as box:
            sent = box.send(right, array)
            box.receive(left, other).wait(timeout=10)
            sent.wait(timeout=10)

    Message.wait() returns once the message has ended. Until then the application must not use the array.
    World.mailbox() creates a mailbox, and is collective. Messages of different mailboxes never match.
    """

    world: World = None  # type: ignore[assignment]  # until __init__ has run

    def __init__(self, world: World) -> None:
        super().__init__(_core.mailbox(world, not world.nonblocking))
        self.world = world
        world._parts.add(self)

    def send(self, to: int, data: Any, tag: int = 0) -> Message:
        """Posts a send of the bytes of an array to rank `to`, which may be this rank. Does not block."""
        memory = _memory_of(data, False)
        return self._send(to, tag, memory.address, _bytes_of(memory), memory.keeps)

    def receive(self, source: int, data: Any, tag: int = ANY_TAG) -> Message:
        """Posts a receive for a message from a rank (or ANY_RANK) with a tag (or ANY_TAG). Does not block.

        If the message is longer than the array, Message.wait() raises BoundsError.
        """
        memory = _memory_of(data, True)
        return self._receive(source, tag, memory.address, _bytes_of(memory), memory.keeps)

    def close(self) -> None:
        """Closes the mailbox.

        Other ranks that still send to this mailbox, or wait for a message from this mailbox, raise PeerLost. Raises
        Busy if messages of this rank have not ended.
        """
        self._destroy()

    def __enter__(self) -> Mailbox:
        return self

    def __exit__(self, kind, *_) -> None:
        if kind is None:
            self.close()
        else:
            self._abandon()

    def _abandon(self) -> None:
        """Cancels messages whose transfer has not begun. Then closes the mailbox, unless messages are in flight."""
        try:
            self._give_up_messages()
            self._destroy()
        except Error:
            if self not in self.world._abandoned:
                self.world._abandoned.append(self)

    def __del__(self) -> None:
        if self.world is None or not self.is_open or not self.world.is_open or sys.is_finalizing():
            return
        warnings.warn("a mailbox was not closed: call close(), or use a with statement", ResourceWarning, source=self)
        self._abandon()


def _memory_of(data: Any, is_written: bool) -> Memory:
    if data is None:
        raise ArgumentError("data must be an array, not None", "LSCHED_ERR_ARGUMENT")
    return look_at_host(data, is_written, name="data")


def _bytes_of(memory: Memory) -> int:
    return memory.count * ITEM_BYTES[memory.dtype]
