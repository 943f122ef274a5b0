"""How a process group gets its world."""

from __future__ import annotations

import zlib
from typing import Any

import torch.distributed as dist

from .._world import World, open_with

# The world of the default group, of which all others are parts, and the global ranks of its members.
_root: World | None = None
_root_ranks: list[int] = []


def opened(options: Any, limit: float) -> World:
    """The default group is opened with the store; groups of its ranks are parts of it, if it is of this backend."""
    global _root, _root_ranks
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    if _root is not None and _root.is_open and set(ranks) <= set(_root_ranks):
        tag = zlib.crc32(options.group_id.encode()) & 0x7FFFFFFF
        world = _root.split_ranks([_root_ranks.index(each) for each in ranks], tag)
    else:
        world = open_with(options.group_rank, options.group_size, _StoreExchange(options), commit_timeout=limit)
        if not dist.is_initialized():  # this one will be the default group
            _root, _root_ranks = world, ranks
    world.nonblocking = True  # a first call creates, and waits for others no more than a later one
    return world


class _StoreExchange:
    """Brings bytes of each rank to all by means of torch's store."""

    def __init__(self, options: Any) -> None:
        self._store = options.store
        self._rank = options.group_rank
        self._ranks = options.group_size
        self._calls = 0
        # A store may outlive the groups that are opened with it, one after the other.
        self._times = options.store.add(f"lsched/opened/{options.group_rank}", 1)

    def __call__(self, mine: bytes) -> list[bytes]:
        self._calls += 1
        key = f"lsched/{self._times}/{self._calls}/"
        self._store.set(key + str(self._rank), mine.hex())
        return [bytes.fromhex(self._store.get(key + str(rank)).decode()) for rank in range(self._ranks)]
