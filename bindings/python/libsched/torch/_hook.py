"""Communication hooks of DistributedDataParallel that combine the gradient of the whole model."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.distributed as dist

from .._world import World
from . import _device
from ._group import Group
from ._parameters import Parameters, expect_dense_gradients
from ._work import Work, waiter

_ALONE = 300.0  # timeout in seconds if neither the caller nor a group sets a timeout


def world_and_limit(group: Any, timeout: float | None) -> tuple[World, float]:
    """Returns a world and its timeout in seconds.

    `group` is a process group, a libsched.World, or None: the default group.
    """
    if isinstance(group, World):
        return group, _ALONE if timeout is None else timeout
    if group is None:
        group = dist.group.WORLD
    if not isinstance(group, Group):
        raise ValueError(f"{group} is not a process group of the backend lsched: create the group with "
                         "backend=\"lsched\"")
    return group.world, group._limit if timeout is None else timeout


def broadcast_parameters(model: torch.nn.Module, process_group: Any = None, timeout: float | None = None) -> None:
    """Copies the parameters and buffers of rank 0's model to all ranks.

    This function is collective, and blocks. DDP's constructor does the same. Also copies buffers that are not
    persistent, but not the extra state of modules. `process_group` is a group of the backend lsched, or a
    libsched.World; None: the default group.
    """
    world, limit = world_and_limit(process_group, timeout)
    for each in itertools.chain(model.parameters(), model.buffers()):
        each = each.detach()
        flat = each.contiguous().view(-1).view(torch.uint8)
        if flat.is_cuda:
            _device.attach(world, flat.device)
        with world.bcast(flat) as step:
            _device.run(step, flat, limit)
        each.copy_(flat.view(each.dtype).view(each.shape))


def unwrapped(ddp: torch.nn.parallel.DistributedDataParallel) -> torch.nn.Module:
    """Ends a DistributedDataParallel, and returns its module, which can be wrapped again.

    After torch.distributed._reconfigure: `ddp = DistributedDataParallel(libsched.torch.unwrapped(ddp))` on all members.
    Without this function, the hooks of the old wrapper would run until its last reference is gone.
    """
    del ddp.reducer, ddp.logger
    return ddp.module


class Hook:
    """The base of hooks. Collects the gradients of all buckets of a step.

    The last bucket starts the round. The result of the round is copied to all buckets. The vector covers the whole
    model, because DDP changes its buckets after the first step.
    """

    def __init__(self, ddp: Any, timeout: float | None) -> None:
        expect_dense_gradients(ddp.module)
        self.world, self.limit = world_and_limit(ddp.process_group, timeout)
        self.parameters = Parameters(ddp.module.named_parameters())
        self.gradient, self.result = self.parameters.vector(), self.parameters.vector()
        self._places = {id(each): i for i, each in enumerate(self.parameters.tensors)}
        self._taken: list[tuple[torch.Tensor, int]] = []
        self._ended: torch.futures.Future = torch.futures.Future()
        self._work: Work | None = None

    def _begin(self) -> Any:
        """Starts the round, which reads `gradient` and writes `result`. Returns the object for which a Work waits."""
        raise NotImplementedError

    @torch.no_grad()
    def take(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Copies the gradients of a bucket. Returns a future whose value is the bucket's buffer."""
        gradients = bucket.gradients()
        places = [self._places[id(each)] for each in bucket.parameters()]
        torch._foreach_copy_([self.gradient.parts[i] for i in places], gradients)
        self._taken += zip(gradients, places)
        buffer, ended = bucket.buffer(), self._ended
        future = ended.then(lambda _: self._given(buffer))
        if bucket.is_last():
            taken, self._taken, self._ended = self._taken, [], torch.futures.Future()
            self._work = Work(self._begin(), [], self.limit, lambda: self._give_back(taken))
            waiter.put(ended, self._work)
        return future

    @torch.no_grad()
    def _give_back(self, taken: list[tuple[torch.Tensor, int]]) -> None:
        torch._foreach_copy_([each for each, _ in taken], [self.result.parts[i] for _, i in taken])

    def _given(self, buffer: torch.Tensor) -> torch.Tensor:
        self._work._value()  # raises the error of the round
        return buffer
