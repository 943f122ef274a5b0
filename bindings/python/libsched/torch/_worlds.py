"""The world of a process group, and the root world of a process."""

from __future__ import annotations

import collections
import itertools
import time
from datetime import timedelta
from typing import Any, Callable

import torch.distributed as dist
from torch.distributed import DistBackendError

from .._errors import Timeout
from .._world import World, open_with
from ._work import as_torch_error


class _Root:
    """The world of the default group. The worlds of later groups are split from this world.

    ranks  the global ranks of the members
    made   number of groups that this process has created, by tuple of the members' global ranks
    """

    def __init__(self, world: World, ranks: list[int]) -> None:
        self.world = world
        self.ranks = ranks
        self.made: collections.Counter[tuple[int, ...]] = collections.Counter()

    def part(self, members: tuple[int, ...]) -> World:
        """Returns the world of these members. The tag is the number of earlier groups of the same members.

        All members have counted the same number. The group's name cannot be the tag: if only the members create a
        group, its name may differ between members, because it contains the number of all groups of a process.
        """
        part = self.world.split_ranks([self.ranks.index(each) for each in members], self.made[members])
        self.made[members] += 1
        return part


_root: _Root | None = None


def opened(options: Any, limit: float) -> World:
    """Opens the world of a group: splits it from the root world, or else opens it by torch's store."""
    global _root
    members = tuple(options.global_ranks_in_group) or tuple(range(options.group_size))
    if _root is not None and _root.world.is_open and set(members) <= set(_root.ranks):
        world = _root.part(members)
    else:
        world = opened_by_store(_store_of(options, members), options.group_rank, options.group_size, limit)
        if not dist.is_initialized():  # this group will be the default group
            _root = _Root(world, list(members))
    return world


def opened_by_store(store: dist.Store, rank: int, ranks: int, limit: float) -> World:
    return opened_by(_StoreExchange(store, rank, ranks, limit), rank, ranks, limit)


def opened_by(exchange: Callable[[bytes], list[bytes]], rank: int, ranks: int, limit: float) -> World:
    """Opens a world that has no relation to the worlds of other groups."""
    world = open_with(rank, ranks, exchange, commit_timeout=limit)
    world.nonblocking = True  # a call that creates a schedule need not wait for other ranks
    return world


def begin_anew(world: World) -> None:
    """Makes `world` the root world. The default group has just entered this world."""
    global _root
    _root = _Root(world, list(range(world.size)))


def forget(world: World) -> None:
    """If `world` is the root world, makes the next default group open a new world, even while `world` is open."""
    global _root
    if _root is not None and _root.world is world:
        _root = None


def _store_of(options: Any, members: tuple[int, ...]) -> dist.Store:
    """Returns the store of the default group, with a prefix that is equal on all members.

    `options.store` cannot be used, because its prefix has the group's name. The default group uses its own store.
    """
    if not dist.is_initialized():
        return options.store
    return dist.PrefixStore("lsched/" + "_".join(map(str, members)), dist.distributed_c10d._get_default_store())


class _StoreExchange:
    """Exchanges bytes between all ranks by torch's store. Rank 0 gathers the bytes, and sends all of them to all ranks.

    Each exchange has a separate number, because the store may contain keys of earlier exchanges and of dead processes:
    torchrun passes one store to all attempts. A rank may also be started again while the other ranks wait. So the ranks
    first agree on the number:

    1. Rank 0 marks the last number as incomplete, unless this number is complete, and begins the next number.
    2. Each other rank waits for a number that rank 0 has begun but not marked, and writes that the rank is present.
    3. Once all ranks are present, rank 0 marks the number as complete, and all ranks use this number.
    4. If rank 0 marks the number for which a rank waits as incomplete, the rank tries the next number.

    The number of round trips to the store does not grow with the number of ranks, up to 1024 ranks. But rank 0 makes
    one round trip for each rank if the store cannot read several keys at once, as a FileStore cannot.
    """

    def __init__(self, store: dist.Store, rank: int, ranks: int, limit: float) -> None:
        self._store = store
        self._rank = rank
        self._ranks = ranks
        self._until = time.monotonic() + limit
        self._calls = 0
        self._number = self._begin() if rank == 0 else self._join()

    def __call__(self, mine: bytes) -> list[bytes]:
        self._calls += 1
        step = f"lsched/{self._number}/call/{self._calls}"
        parts = {f"{step}/from {first}": first for first in range(0, self._ranks, _RANKS_OF_PART)}
        if self._rank == 0:
            self._wait(self._keys_of_others(step), step)
            values = [mine.hex(), *self._values(self._keys_of_others(step))]
            for key, first in parts.items():
                self._store.set(key, " ".join(values[first:first + _RANKS_OF_PART]))
        else:
            self._store.set(f"{step}/{self._rank}", mine.hex())
            self._wait(list(parts), step)
            values = " ".join(self._values(list(parts))).split(" ")
        return [bytes.fromhex(each) for each in values]

    def _begin(self) -> int:
        """Returns the number once all ranks are present. Called by rank 0."""
        last = self._store.add(_COUNT, 0)
        if last > 0:
            self._store.set(f"lsched/{last}/begun", "yes")  # the process may have died before it set this key
            self._store.compare_set(f"lsched/{last}/ended", "", "incomplete")  # has no effect on a key that exists
        number = self._store.add(_COUNT, 1)
        self._store.set(f"lsched/{number}/begun", "yes")
        step = f"lsched/{number}/present"
        self._wait(self._keys_of_others(step), step)
        self._store.set(f"lsched/{number}/ended", "complete")
        return number

    def _join(self) -> int:
        """Returns the number once rank 0 has marked it as complete."""
        for number in itertools.count(max(1, self._store.add(_COUNT, 0))):
            self._wait([f"lsched/{number}/begun"])
            ended = f"lsched/{number}/ended"
            if self._store.check([ended]):
                continue
            step = f"lsched/{number}/present"
            self._store.set(f"{step}/{self._rank}", "yes")
            self._wait([ended], step)
            if self._store.get(ended) == b"complete":
                break
        return number

    def _keys_of_others(self, step: str) -> list[str]:
        return [f"{step}/{rank}" for rank in range(1, self._ranks)]

    def _values(self, keys: list[str]) -> list[str]:
        if self._store.has_extended_api() and keys:
            return [each.decode() for each in self._store.multi_get(keys)]
        return [self._store.get(each).decode() for each in keys]

    def _wait(self, keys: list[str], step: str | None = None) -> None:
        """Waits until all keys exist. After a timeout, names the first rank without a key of this step, or rank 0."""
        if not keys:
            return
        try:
            # The store counts whole milliseconds, so one more millisecond is needed to reach self._until.
            self._store.wait(keys, timedelta(seconds=max(0.0, self._until - time.monotonic()) + 0.001))
        except RuntimeError:
            if time.monotonic() < self._until:  # not a timeout
                raise
            if self._store.check(keys):
                return
            of_others = () if step is None else self._keys_of_others(step)
            late = (rank for rank, key in enumerate(of_others, 1) if not self._store.check([key]))
            raise _absence_of(next(late, 0))


_COUNT = "lsched/count"  # key of the number of exchanges that have begun
_RANKS_OF_PART = 1024  # number of ranks whose bytes are in one value; a TCPStore takes at most 8 MiB


def _absence_of(rank: int) -> DistBackendError:
    return as_torch_error(Timeout(f"rank {rank} did not reach init_process_group or new_group in time: start all "
                                  "ranks, or pass a longer timeout", "LSCHED_ERR_TIMEOUT", rank))
