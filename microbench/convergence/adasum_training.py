"""A training with Adasum. The figures orthogonality and hessian examine the training between its steps."""

from __future__ import annotations

import torch

from adasum import adaptive_sum
from libsched.torch._parameters import Parameters
from tasks import Microbatches


class Training:
    """Steps the task's optimizer by the adaptive sum of the ranks' gradients. All gradients use the same weights."""

    def __init__(self, task: Microbatches) -> None:
        self.task, self.model = task, task.model()
        self.parameters = Parameters(self.model.named_parameters())
        self._update = self.parameters.vector()
        self._opt = task.optimizer(self.model)

    def gradient(self, task: Microbatches, rank: int, step: int, create_graph: bool = False) -> torch.Tensor:
        """Returns the gradient at the present weights for the task's microbatch of the rank in the step."""
        return self.derivative(task.loss(self.model, rank, step), create_graph)

    def derivative(self, value: torch.Tensor, create_graph: bool = False) -> torch.Tensor:
        """Returns the derivative of `value` with respect to all parameters, as one vector."""
        found = torch.autograd.grad(value, self.parameters.tensors, create_graph=create_graph)
        return torch.cat([each.flatten() for each in found])

    def combined(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        return adaptive_sum(gradients, self.parameters.table())

    def step(self, step: int, update: torch.Tensor) -> None:
        self._update.flat.copy_(update)
        self._update.be_gradients()
        self._opt.param_groups[0]["lr"] = self.task.rate_of(step + 1)
        self._opt.step()
