"""A fragment of a model that DiLoCo trains: its global weights, its changes, and the results of its rounds."""

from __future__ import annotations

from typing import Callable

import torch

from .._partial import Report
from ._parameters import Parameters


class Fragment:
    """A part of the model. The rounds of one partial schedule move the fragments in turn.

    Invariants:
        - `weights` are the global weights. They depend only on the results of the rounds that were applied, so ranks
          with the same number of applied rounds have the same bits.
        - `start` are the weights from which the next change is measured: the global weights, or the local weights at
          the last offer if that offer has no result yet. So no part of a change is offered twice.
        - `residual` is the part of all changes that transport has rounded away on this rank. The next offer adds it.
    """

    def __init__(self, parameters: Parameters, outer: torch.optim.Optimizer, keeps_residual: bool) -> None:
        self.parameters, self.outer = parameters, outer
        self.weights, self.start, self._local = (parameters.vector() for _ in range(3))
        self._result = parameters.vector()
        self.residual = torch.zeros_like(self.start.flat) if keeps_residual else None
        self.round = 0  # number of rounds of this fragment that were applied to `weights`
        self.rounds_before = 0  # the part of `round` from before a checkpoint
        self.is_mixed = True  # false if the local weights lack a result that was applied to `weights`
        self.offered_step = 0
        self.owed = 0  # weight of the steps since the last offer, if the weight comes from a function
        self.differs = False  # true if a result has covered several rounds
        self.report: Report | None = None

    def begin(self) -> None:
        """Makes the local weights the first global weights."""
        self.weights.take_weights()
        self.start.flat.copy_(self.weights.flat)

    # --- from this rank to a round -------------------------------------------------------------------------------

    @torch.no_grad()
    def offer(self, send: Callable[[], None], message: torch.Tensor, step: int, weight: int) -> None:
        """Writes the change since `start` and the residual of earlier offers to `message`, and calls send().

        After an exception, call again.
        """
        self._local.take_weights()
        change = self.start.flat - self._local.flat
        if self.residual is not None:
            change += self.residual
        message.copy_(change)
        send()
        if self.residual is not None and weight != 0:
            torch.sub(change, self._delivered(message, weight), out=self.residual)
        self.start.flat.copy_(self._local.flat)
        self.owed = 0
        self.offered_step = step

    def _delivered(self, message: torch.Tensor, weight: int) -> torch.Tensor:
        """Returns the message for each unit of weight. The library rounds weight * message to the dtype."""
        if weight == 1:
            return message
        return (message.float() * weight).to(message.dtype).to(self.parameters.dtype) / weight

    # --- from rounds to the weights ------------------------------------------------------------------------------

    def step(self, report: Report, result: torch.Tensor, rounds: int) -> None:
        """Makes an outer step with a result, which covers a number of rounds of this fragment.

        The local weights remain as they are until mix() or restart().
        """
        self.report = report
        self.round += rounds
        self.differs |= rounds > 1
        self.is_mixed = False
        if not report.has_result:
            return
        of_outer = [each for group in self.outer.param_groups for each in group["params"]]
        gradients = [each.grad for each in of_outer]
        for each in of_outer:
            each.grad = None
        self._local.take_weights()
        self._result.flat.copy_(result)
        self._result.be_gradients()
        self.weights.give_weights()
        try:
            self.outer.step()
        finally:
            self.weights.take_weights()
            self._local.give_weights()
            for each, gradient in zip(of_outer, gradients):
                each.grad = gradient

    @torch.no_grad()
    def mix(self, alpha: float) -> None:
        """Sets the weights of the model to alpha * local + (1 - alpha) * global, unless no result is new."""
        if self.is_mixed:
            return
        if alpha == 0:  # also replaces local weights that are not finite
            return self.restart()
        self.is_mixed = True
        self.start.flat.copy_(self.weights.flat)
        self._local.take_weights()
        torch.lerp(self.weights.flat, self._local.flat, alpha, out=self._local.flat)
        self._local.give_weights()

    def restart(self) -> None:
        """Sets the weights of the model to the global weights."""
        self.is_mixed = True
        self.start.flat.copy_(self.weights.flat)
        self.weights.give_weights()
