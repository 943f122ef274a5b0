"""The policies that are compared, and the outcome of a training."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Policy:
    activation: str
    lag: str = "latest"
    average_every: int = 0  # steps between two averages of the weights; 0: only at the end

    def __str__(self) -> str:
        text = self.activation if self.activation == "full" else f"{self.activation}, {self.lag}"
        return text + (f", averaged every {self.average_every}" if self.average_every else "")


@dataclasses.dataclass
class Outcome:
    """The outcome of one training."""

    accuracy: float = 0.0  # mean over replicas, on the test set
    averaged: float = 0.0  # accuracy of the average of all replicas
    time: float = 0.0  # duration of the training until the last step of the last rank, in units of the load or seconds
    contributors: list[int] = dataclasses.field(default_factory=list)  # number of contributing ranks of each round
    staleness: list[int] = dataclasses.field(default_factory=list)  # number of rounds by which gradients were late
    steps: list[int] = dataclasses.field(default_factory=list)  # steps of each rank, for loops by rounds
    is_exact: bool = True  # every gradient was in one round, every round had contributors, and averages have equal bits
