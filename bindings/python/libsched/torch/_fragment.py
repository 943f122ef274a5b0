"""A fragment of a model that DiLoCo trains: its global weights, its offers, and the results of its rounds."""

from __future__ import annotations

import collections
import time
from typing import Any, Callable

import torch

from .._errors import Timeout
from .._partial import Report
from ._parameters import Parameters

NO_END = 2**62  # the last round of a loop without a last round


class Fragment:
    """A part of the model that has its own rounds.

    Invariants:
        - `weights` are the global weights. They depend only on the results of the rounds that were applied, so ranks
          with the same number of applied rounds have the same bits.
        - `start` are the weights from which the next change is measured: the global weights, or the local weights at
          the last offer if that offer has no result yet. So no part of a change is offered twice.
        - `residual` is the part of all changes that transport has rounded away on this rank. The next offer adds it.
    """

    def __init__(self, parameters: Parameters, outer: torch.optim.Optimizer,
                 transport: torch.dtype | None) -> None:
        self.parameters, self.outer = parameters, outer
        self.weights, self.start, self._local = (parameters.vector() for _ in range(3))
        self._result = parameters.vector()
        self.transport = transport or parameters.dtype
        self.residual = torch.zeros_like(self.start.flat) if self.transport != parameters.dtype else None
        # The message, and later the result of the round.
        self._message = torch.zeros_like(self.start.flat, dtype=self.transport)
        self.sums: Any = None
        self.tickets: collections.deque = collections.deque()  # of rounds that were not applied, oldest first
        self.used_ticket: Any = None  # of the last applied round
        self.is_overdue = False  # true if a wait for the oldest ticket has ended without a result
        self.offered_step = 0
        self._owed = 0  # weight of an offer that has failed
        self.rounds_before = 0
        self.first_round = 1  # round of the schedule in the first turn; see DiLoCo._offer_next
        self.final_round = NO_END  # last round of the running loop over rounds()
        self.differs = False
        self.report: Report | None = None

    @property
    def round(self) -> int:
        return self.rounds_before + self.sums.round

    @property
    def has_ended(self) -> bool:
        return self.round >= self.final_round

    @property
    def is_blocked(self) -> bool:
        """True if this rank has waited in vain for a round that is still not over."""
        return self.is_overdue and not self.tickets[0].test()

    def begin(self) -> None:
        """Makes the local weights the first global weights."""
        self.weights.take_weights()
        self.start.flat.copy_(self.weights.flat)

    # --- from this rank to a round -------------------------------------------------------------------------------

    @torch.no_grad()
    def offer(self, step: int, given: int | Callable[[], int] | None) -> None:
        """Offers the change since `start`, with the residual of earlier offers. After an exception, call again.

        `given` is the weight, or a function that returns the weight of the steps since its last call. If an offer
        fails, the next offer adds the weight that this function has returned.
        """
        self._local.take_weights()
        weight = given
        if callable(given):
            weight = self._owed = self._owed + given()
        change = self.start.flat - self._local.flat
        if self.residual is not None:
            change += self.residual
        self._message.copy_(change)
        ticket = self.sums.offer(self._message, **({} if weight is None else {"weight": weight}))
        if self.residual is not None and weight != 0:
            torch.sub(change, self._delivered(weight), out=self.residual)
        self.start.flat.copy_(self._local.flat)
        self._owed = 0
        self.tickets.append(ticket)
        self.offered_step = step

    def _delivered(self, weight: int | None) -> torch.Tensor:
        """Returns the message for each unit of weight. The library rounds weight * message to the dtype."""
        if weight is None or weight == 1:
            return self._message
        return (self._message.float() * weight).to(self.transport).to(self.parameters.dtype) / weight

    def skip_to(self, turn: int) -> None:
        """Makes the next offer call for the round of a turn, if that round is later than the next round."""
        self.sums.skip(min(self.first_round + turn - 2, self.final_round - self.rounds_before - 1))

    # --- from rounds to the weights ------------------------------------------------------------------------------

    def collect(self, alpha: float, timeout: float, may_be_late: bool) -> None:
        """Applies the results of all rounds up to the last offer, then mixes the local and the global weights.

        Waits for at most `timeout` seconds. Then raises Timeout, or returns if `may_be_late`.
        """
        end, round = time.monotonic() + timeout, self.round
        self._local.take_weights()
        try:
            if self.used_ticket is not None:  # a late rank skips rounds, so results may precede the first ticket's
                self._take(self.used_ticket, 0.0)
            while self.tickets:
                self._take(self.tickets[0], max(0.0, end - time.monotonic()))
                self.used_ticket, self.is_overdue = self.tickets.popleft(), False
        except Timeout:
            self.is_overdue = True
            if not may_be_late:
                raise
        finally:
            if self.round > round:
                self.mix(alpha)

    def _take(self, ticket: Any, timeout: float) -> None:
        """Waits for the ticket's round. Then makes outer steps with all results that are there."""
        while True:
            report = self.sums.collect(ticket, self._message, timeout)
            if report.from_ == report.to:
                return
            self.step(report)

    def flush(self, timeout: float) -> None:
        """Applies the results of all offers of all ranks. The local weights become the global weights. Collective."""
        if not self.tickets and self.used_ticket is None:
            self.tickets.append(self.sums.offer(None))
        report = self.sums.flush(self._message, timeout)
        if report.from_ < report.to:
            self.step(report)
        if self.tickets:
            self.used_ticket = self.tickets[-1]
            self.tickets.clear()
        self._take(self.used_ticket, timeout)
        self.is_overdue = False
        self.mix(0.0)

    def step(self, report: Report) -> None:
        """Makes an outer step with a result, which is in the message."""
        self.report = report
        self.differs |= report.to - report.from_ > 1
        if not report.has_result:
            return
        of_outer = [each for group in self.outer.param_groups for each in group["params"]]
        gradients = [each.grad for each in of_outer]
        for each in of_outer:
            each.grad = None
        self._result.flat.copy_(self._message)
        self._result.be_gradients()
        self.weights.give_weights()
        try:
            self.outer.step()
        finally:
            self.weights.take_weights()
            for each, gradient in zip(of_outer, gradients):
                each.grad = gradient

    @torch.no_grad()
    def mix(self, alpha: float) -> None:
        """Sets the weights of the model to alpha * local + (1 - alpha) * global."""
        self.start.flat.copy_(self.weights.flat)
        if alpha == 0:  # also replaces local weights that are not finite
            self.weights.give_weights()
        else:
            torch.lerp(self.weights.flat, self._local.flat, alpha, out=self._local.flat)
            self._local.give_weights()
