"""The backend "lsched" of torch.distributed, in pure Python.

    import torch.distributed as dist, libsched.torch          # torchrun --nproc-per-node 4 train.py
    dist.init_process_group("lsched")

Importing this module registers the backend. torch 2.14 and later find the backend without the import. The backend
serves tensors on the CPU and on CUDA devices. docs/reference/python.md has the guide "From Gloo to lsched".
docs/reference/training.md describes training that does not wait for slow ranks.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed as dist

from .._world import World
from ._adasum import AdasumOptimizer, AdasumState, adasum_hook
from ._diloco import DiLoCo
from ._group import Group
from ._hook import broadcast_parameters, unwrapped
from ._oktopk import OkTopkState, oktopk_hook
from ._partial import PartialOptimizer, PartialState, partial_hook
from ._reconfigure import ReconfigurableGroup
from ._torchft import process_group_for_torchft
from ._work import Work

__all__ = ["AdasumOptimizer", "AdasumState", "DiLoCo", "Group", "OkTopkState", "PartialOptimizer", "PartialState",
           "Work", "adasum_hook", "broadcast_parameters", "monitored_barrier", "oktopk_hook", "partial_hook",
           "process_group_for_torchft", "register", "unwrapped", "world_of"]


def _make(options: Any, _: Any) -> Group:
    return ReconfigurableGroup(options) if getattr(options, "enable_reconfigure", False) else Group(options)


def register() -> None:
    """Registers the name "lsched" with torch.distributed.

    Importing this module registers the name. Later calls have no effect.
    """
    if "LSCHED" not in dist.Backend._plugins:
        dist.Backend.register_backend("lsched", _make, extended_api=True, devices=["cpu", "cuda"])


def world_of(group: dist.ProcessGroup | None = None) -> World:
    """Returns the libsched.World of a process group, or of the default group.

    The world is for persistent schedules beside torch's calls. Raises ValueError if the group is not of this backend.
    The world is closed with the group.
    """
    group = group or dist.group.WORLD
    if not isinstance(group, Group):
        raise ValueError(f"{group} is not a process group of the backend lsched: create the group with "
                         "backend=\"lsched\"")
    return group.world


def monitored_barrier(group: dist.ProcessGroup | None = None, timeout: timedelta | None = None) -> None:
    """Runs a barrier.

    All ranks of the group must call this function, which blocks. After `timeout`, raises a RuntimeError that names a
    missing rank.
    """
    world_of(group)  # raises ValueError for a group of another backend
    (group or dist.group.WORLD).monitored_barrier(timeout)  # type: ignore[union-attr]



register()
