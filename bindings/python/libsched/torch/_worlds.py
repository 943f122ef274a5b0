"""The world of a process group, and the root world of a process."""

from __future__ import annotations

import collections
import itertools
import time
import uuid
from datetime import timedelta
from typing import Any

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
        exchange = _StoreExchange(_store_of(options, members), options.group_rank, options.group_size, limit)
        world = open_with(options.group_rank, options.group_size, exchange, commit_timeout=limit)
        if not dist.is_initialized():  # this group will be the default group
            _root = _Root(world, list(members))
    world.nonblocking = True  # a call that creates a schedule need not wait for other ranks
    return world


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
    """Exchanges bytes between all ranks by torch's store, under a name that no other exchange has.

    The store may contain keys of earlier exchanges and of dead processes, because torchrun passes one store to all
    attempts. A rank may also be started again while the other ranks wait. So the ranks agree upon the name first:

    1. Every other rank than rank 0 writes a random word, which is new for each exchange.
    2. Rank 0 draws the name, and sends it to each word that it reads.
    3. A rank that has received a new name confirms it.
    4. If each rank has confirmed the name with the word that it wrote last, rank 0 sends the name a second time.
    """

    def __init__(self, store: dist.Store, rank: int, ranks: int, limit: float) -> None:
        self._store = store
        self._rank = rank
        self._ranks = ranks
        self._until = time.monotonic() + limit
        self._calls = 0
        self._name = self._announce() if rank == 0 else self._receive()

    def __call__(self, mine: bytes) -> list[bytes]:
        self._calls += 1
        key = f"lsched/{self._name}/{self._calls}/"
        self._store.set(key + str(self._rank), mine.hex())
        return [bytes.fromhex(self._read(key + str(rank), rank)) for rank in range(self._ranks)]

    def _announce(self) -> str:
        """Returns the name once all ranks have confirmed it. Called by rank 0."""
        name = uuid.uuid4().hex
        words: dict[int, str] = {}
        while (missing := self._unconfirmed(name, words)) is not None:
            if time.monotonic() > self._until:
                raise _absence_of(missing)
            time.sleep(_TURN)
        for word in words.values():
            self._send(word, name)
        return name

    def _unconfirmed(self, name: str, words: dict[int, str]) -> int | None:
        """Sends the name to the words that are not in `words` yet. Returns a rank that has not confirmed the name."""
        missing = None
        for rank in range(self._ranks - 1, 0, -1):
            word = self._value(f"lsched/word/{rank}")
            if word is not None and words.get(rank) != word:
                words[rank] = word
                self._send(word, name)
            if word is None or self._value(f"lsched/{name}/confirmed/{rank}") != word:
                missing = rank
        return missing

    def _receive(self) -> str:
        """Returns the name once rank 0 has sent it twice."""
        word = uuid.uuid4().hex
        self._store.set(f"lsched/word/{self._rank}", word)
        name = None
        for number in itertools.count(1):
            received = self._read(f"lsched/to/{word}/{number}", 0, name)
            if received == name:
                break
            name = received
            self._store.set(f"lsched/{name}/confirmed/{self._rank}", word)
        return name

    def _send(self, word: str, name: str) -> None:
        number = self._store.add(f"lsched/sent/{word}", 1)
        self._store.set(f"lsched/to/{word}/{number}", name)

    def _value(self, key: str) -> str | None:
        return self._store.get(key).decode() if self._store.check([key]) else None

    def _read(self, key: str, rank: int, name: str | None = None) -> str:
        """Returns the value of a key that `rank` writes, or rank 0 after all ranks have confirmed `name`."""
        try:
            # The store counts whole milliseconds, so one more is needed to reach the end.
            self._store.wait([key], timedelta(seconds=max(0.0, self._until - time.monotonic()) + 0.001))
        except RuntimeError:
            if time.monotonic() < self._until:  # not a timeout
                raise
            others = range(1, self._ranks) if name is not None else ()
            late = (each for each in others if not self._store.check([f"lsched/{name}/confirmed/{each}"]))
            raise _absence_of(next(late, rank))
        return self._store.get(key).decode()


_TURN = 0.01  # seconds between two looks of rank 0 at the store


def _absence_of(rank: int) -> DistBackendError:
    return as_torch_error(Timeout(f"rank {rank} did not reach init_process_group or new_group in time: start all "
                                  "ranks, or pass a longer timeout", "LSCHED_ERR_TIMEOUT", rank))
