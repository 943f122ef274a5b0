"""A process group that can get other members: torch's interface "reconfigure", in torch 2.14 and later.

    dist.init_process_group("lsched", enable_reconfigure=True)
    handle = dist._get_reconfigure_handle()       # the program sends the handles of all members to all members
    dist._reconfigure(uuid, handles).wait()       # the same fresh number and the same handles on all members

Each reconfigure() opens a new world (_rendezvous.py). A member moves to the new world once it is open, and then gives
up the old world. So a failed attempt leaves the old world as it was.
"""

from __future__ import annotations

import threading
from typing import Any

import torch.distributed as dist

from .._errors import ArgumentError, Error
from ._compile import is_not_compiled
from ._group import Group
from ._rendezvous import Door, Exchange, in_order
from ._state import NoWorld
from ._work import Work, as_torch_error, seconds
from ._worlds import begin_anew, forget, opened_by


@is_not_compiled
class ReconfigurableGroup(Group):
    """The default group if init_process_group got enable_reconfigure=True. Has no world before reconfigure()."""

    supports_reconfigure = True

    def _begin(self, options: Any) -> None:
        self._door = Door()
        self._used: set[int] = set()
        self._lock = threading.Lock()
        self._leave("the process group has no members yet, because it was created with enable_reconfigure=True")

    def _leave(self, why: str, is_error: bool = False) -> None:
        """Refuses all calls until the next reconfigure()."""
        none: Any = NoWorld(why, is_error)
        self.world = self._schedules = self._box = self._calls = self._under_way = none
        self._known = none.refuse

    def getRank(self) -> int:
        return self._my_rank

    def getSize(self) -> int:
        return self._ranks

    rank, size = getRank, getSize

    def shutdown(self) -> None:
        super().shutdown()
        self._door.close()

    def abort(self) -> None:
        """Leaves the present world at once. The group can be used again after reconfigure()."""
        super().abort()
        self._leave("the process group was aborted", is_error=True)

    def get_reconfigure_handle(self) -> str:
        """Returns the handle for the next call of reconfigure(). Ask for a new handle after each reconfigure()."""
        return self._door.handle(self._my_rank)

    def reconfigure(self, opts: Any) -> Work:
        """Moves the group to a new world. All members of the new world call this method, which waits for them.

        In a list, the position of a handle is the rank. In a set, the members that have entered most worlds have the
        first ranks. Raises DistBackendError if a member is missing; the group then stays as it was. Ignores hints.
        """
        try:
            with self._lock:
                if opts.uuid in self._used:
                    raise ArgumentError(f"the uuid {opts.uuid} was already used by this group: pass a fresh uuid",
                                        "LSCHED_ERR_ARGUMENT")
                members = in_order(opts.handles)
                rank = self._door.place_in(members)
                self._used.add(opts.uuid)
                exchange = Exchange(self._door, opts.uuid, rank, members, seconds(opts.timeout, self._limit))
                try:
                    self._move(opened_by(exchange, rank, len(members), exchange.left()))
                except BaseException as error:
                    exchange.close(error)
                    raise
                exchange.close()
        except Error as error:
            raise as_torch_error(error)
        return Work(None, [], 0.0)

    def _move(self, world: Any) -> None:
        old, under_way = self.world, self._under_way
        try:
            self._enter(world)
        except BaseException:
            world._give_up()
            raise
        world._commit_timeout = self._limit  # until here, the timeout of reconfigure()
        self._door.age += 1
        if dist.group.WORLD is self:
            begin_anew(world)
        else:
            forget(old)
        old._give_up()
        under_way.forget()
