"""Training with the adaptive sum of the updates of many ranks (Maleki and others, MLSys 2021)."""

from typing import Any, Callable, Iterable

import torch
import torch.distributed as dist

from .._collective import refusing
from ._hook import world_and_limit
from ._parameters import expect_dense_gradients
from ._wrapper import Wrapper
from ._work import Work


class AdasumOptimizer(Wrapper):
    """An optimizer that steps by the gradient of its own rank. Then the ranks combine the changes of their weights.

        opt = libsched.torch.AdasumOptimizer(torch.optim.AdamW(model.parameters(), lr=1e-3), model.named_parameters())
        libsched.torch.broadcast_parameters(model)

    For any number of ranks, use the same learning rate as for one rank. Orthogonal changes of a tensor are added, and
    parallel changes are averaged. The state of the inner optimizer and the result of state_dict() differ between ranks.
    At the beginning, the weights must be the same on all ranks. All ranks create the optimizer, with the same options:
        local_steps    inner steps between two exchanges
        process_group  a group of the backend lsched, or a libsched.World; None: the default group
        timeout        maximum duration of an exchange in seconds; None: the group's timeout

    Attributes:
        non_finite  names of the tensors with NaN or infinities in the last exchange, the same on all ranks. These
                    tensors were reset to their values before the local steps
    """

    def __init__(self, inner: torch.optim.Optimizer, named_parameters: Iterable[tuple[str, torch.nn.Parameter]], *,
                 local_steps: int = 1, process_group: Any = None, timeout: float | None = None) -> None:
        self.world, self._limit = world_and_limit(process_group, timeout)
        with refusing(self.world):
            if local_steps < 1:
                raise ValueError(f"local_steps is {local_steps}, but must be at least 1")
            super().__init__(inner, named_parameters)
            self._before, self._move = self.parameters.vector(), self.parameters.vector()
        self._local_steps, self._steps = local_steps, 0
        self.non_finite: list[str] = []
        self.exchange = self.world.adasum(self._move.flat, tensors=self.parameters.table())
        self.exchange._create_wait(self._limit)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Makes an inner step. After every `local_steps` inner steps, combines the changes of all ranks (an exchange).

        An exchange is collective and blocks. Returns the value of `closure`. If gradients have overflowed under a
        GradScaler, the inner step is skipped, and the accumulated change is not modified.
        """
        self._expect_known_parameters()
        with torch.enable_grad():
            answer = None if closure is None else closure()
        if not self._syncs:
            return answer
        if self._is_for_initial_state():
            self.inner.step()
            return answer
        if self._steps % self._local_steps == 0:
            self._before.take_weights()
        if not self._has_overflowed():
            scale = self._scale()
            if scale is not None:
                torch._foreach_div_([each.grad for each in self.parameters.tensors if each.grad is not None], scale)
            self.inner.step()
        self._steps += 1
        if self._steps % self._local_steps == 0:
            self._combine()
        return answer

    def _combine(self) -> None:
        self._move.take_weights()
        self._move.flat.sub_(self._before.flat)
        self.exchange.run(self._limit)
        flags = self.exchange.non_finite_tensors()
        self.non_finite = [name for name, flag in zip(self.parameters.names, flags) if flag]
        for part, tensor, flag in zip(self._move.parts, self.parameters.tensors, flags):
            if flag:
                part.zero_()
                self._mend_state(tensor)
        self._move.flat.add_(self._before.flat)
        self._move.give_weights()

    def _mend_state(self, of: torch.nn.Parameter) -> None:
        """Zeroes NaN and infinities in the inner optimizer's state, because they would spread to all later steps."""
        for each in self.inner.state.get(of, {}).values():
            if torch.is_tensor(each) and each.is_floating_point():
                each.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)

    def state_dict(self) -> dict[str, Any]:
        """Returns the inner optimizer's state on this rank, and the number of local steps since the last exchange."""
        return self._state_with(steps=self._steps, before=self._before.flat.clone())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        mine = self._load_inner(state_dict)
        if mine is not None:
            self._steps = mine["steps"]
            self._before.flat.copy_(mine["before"])

    def close(self) -> None:
        self.exchange.close()


class AdasumState:
    """The state of adasum_hook, which replaces DDP's allreduce by an adaptive sum, bucket by bucket.

        ddp.register_comm_hook(libsched.torch.AdasumState(ddp), libsched.torch.adasum_hook)

    Each tensor is combined separately, while backward computes the next bucket. Gradients are not divided.
    """

    def __init__(self, ddp: Any, timeout: float | None = None) -> None:
        expect_dense_gradients(ddp.module)
        self.world, self.limit = world_and_limit(ddp.process_group, timeout)
        self._exchanges: dict[tuple, Any] = {}  # keys: parameters of a bucket; DDP changes its buckets once

    def close(self) -> None:
        for each in self._exchanges.values():
            each.close()

    def take(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        buffer = bucket.buffer()
        if not buffer.is_cpu:
            raise NotImplementedError(f"the gradients are on {buffer.device}, but adaptive sums need models on the "
                                      "CPU: move the model")
        key = tuple(id(each) for each in bucket.parameters())
        exchange = self._exchanges.get(key)
        if exchange is None:
            table, begin = [], 0
            for each in bucket.gradients():
                table.append((begin, each.numel()))
                begin += each.numel()
            exchange = self._exchanges[key] = self.world.adasum(buffer, tensors=table)
        exchange.rebind(output=buffer)
        return Work(exchange.start(), [buffer], self.limit).get_future().then(lambda ended: ended.value()[0])


def adasum_hook(state: AdasumState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The communication hook of DistributedDataParallel for an AdasumState."""
    return state.take(bucket)
