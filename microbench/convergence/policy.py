"""What is compared: who waits for whom, and what becomes of late gradients; and what has come of it."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Policy:
    activation: str
    lag: str = "latest"
    average_every: int = 0  # steps between two averages of the weights; 0: none but at the end

    def __str__(self) -> str:
        text = self.activation if self.activation == "full" else f"{self.activation}, {self.lag}"
        return text + (f", averaged every {self.average_every}" if self.average_every else "")


@dataclasses.dataclass
class Outcome:
    """Of one training."""

    accuracy: float = 0.0  # mean over replicas, of the test set
    averaged: float = 0.0  # of the average of all replicas
    time: float = 0.0  # until the last rank has made its last step: units of the load, or seconds
    contributors: list[int] = dataclasses.field(default_factory=list)  # ranks, by round
    staleness: list[int] = dataclasses.field(default_factory=list)  # rounds, by gradient or by round
    steps: list[int] = dataclasses.field(default_factory=list)  # that each rank has made, of loops by rounds
    is_exact: bool = True  # every gradient was in one round, every round had contributors, averages are the same bits
