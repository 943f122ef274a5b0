"""The backend "lsched" of torch.distributed, in pure Python.

    import torch.distributed as dist, libsched.torch          # torchrun --nproc-per-node 4 train.py
    dist.init_process_group("lsched")

Importing this module registers the backend; torch 2.14 and later find it by themselves. It serves tensors of the CPU
and of CUDA, on one machine. docs/reference/python.md has the guide "from Gloo to lsched", docs/reference/training.md
that of training without waiting.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed as dist

from .._world import World
from ._adasum import AdasumOptimizer, AdasumState, adasum_hook
from ._group import Group
from ._hook import broadcast_parameters
from ._oktopk import OkTopkState, oktopk_hook
from ._partial import PartialOptimizer, PartialState, partial_hook
from ._work import Work

__all__ = ["AdasumOptimizer", "AdasumState", "Group", "OkTopkState", "PartialOptimizer", "PartialState", "Work",
           "adasum_hook", "broadcast_parameters", "monitored_barrier", "oktopk_hook", "partial_hook", "register",
           "world_of"]


def _make(options: Any, _: Any) -> Group:
    return Group(options)


def register() -> None:
    """Make the name "lsched" known to torch.distributed. Once is enough; importing this module has done so."""
    if "LSCHED" not in dist.Backend._plugins:
        dist.Backend.register_backend("lsched", _make, extended_api=True, devices=["cpu", "cuda"])


def world_of(group: dist.ProcessGroup | None = None) -> World:
    """The libsched.World of a process group, None: of the default one; for persistent schedules beside torch's calls.

    Raises ValueError where the group is not of this backend. The world is closed with the group.
    """
    group = group or dist.group.WORLD
    if not isinstance(group, Group):
        raise ValueError(f"{group} is no process group of the backend lsched")
    return group.world


def monitored_barrier(group: dist.ProcessGroup | None = None, timeout: timedelta | None = None) -> None:
    """A barrier that names a rank that has not come, after `timeout`; all ranks of the group call it."""
    world_of(group)  # refuses what is no group of ours
    (group or dist.group.WORLD).monitored_barrier(timeout)  # type: ignore[union-attr]



register()
