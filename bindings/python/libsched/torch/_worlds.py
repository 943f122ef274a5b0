"""The world of a process group, and the root world of a process."""

from __future__ import annotations

import collections
from typing import Any

import torch.distributed as dist

from .._world import World, open_with


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
        exchange = _StoreExchange(_store_of(options, members), options.group_rank, options.group_size)
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
    """Exchanges bytes between all ranks by torch's store."""

    def __init__(self, store: dist.Store, rank: int, ranks: int) -> None:
        self._store = store
        self._rank = rank
        self._ranks = ranks
        self._calls = 0
        # Groups that are opened one after the other may share a store, so keys contain the number of the opening.
        self._times = store.add(f"lsched/opened/{rank}", 1)

    def __call__(self, mine: bytes) -> list[bytes]:
        self._calls += 1
        key = f"lsched/{self._times}/{self._calls}/"
        self._store.set(key + str(self._rank), mine.hex())
        return [bytes.fromhex(self._store.get(key + str(rank)).decode()) for rank in range(self._ranks)]
