"""Training with many ranks at the learning rate of one rank: the updates are combined by sum, mean or adaptive sum."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any

import torch

from libsched.torch._parameters import Parameters
from result import Figure, Result, Rule, checked, lines_of_ranks, progress, trainings_of
from tasks import Fashion, Microbatches

HOW = ("sum", "mean", "adasum")


def pair(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Returns the adaptive sum of two vectors (Maleki et al., MLSys 2021, equation 8)."""
    dot, aa, bb = a @ b, a @ a, b @ b
    if aa == 0 or bb == 0:
        return a + b
    return (1 - dot / (2 * aa)) * a + (1 - dot / (2 * bb)) * b


def adaptive_sum(moves: list[torch.Tensor], table: list[tuple[int, int]]) -> torch.Tensor:
    """Returns the adaptive sum of all ranks' vectors, tensor by tensor, along a tree of pairs."""
    out = torch.empty_like(moves[0])
    for begin, count in table:
        parts = [each[begin:begin + count] for each in moves]
        while len(parts) > 1:
            parts = [pair(*parts[i:i + 2]) if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)]
        out[begin:begin + count] = parts[0]
    return out


def train(task: Any, how: str) -> float:
    """Returns the accuracy after a training on task.ranks ranks, each with its own momentum."""
    model = task.model()
    parameters = Parameters(model.named_parameters())
    gradient, weights = parameters.vector(), parameters.vector()
    momenta = [torch.zeros_like(gradient.flat) for _ in range(task.ranks)]
    for step in range(task.steps):
        moves = []
        for rank in range(task.ranks):
            model.zero_grad()
            task.loss(model, rank, step).backward()
            gradient.take_gradients()
            momenta[rank].mul_(task.momentum).add_(gradient.flat)
            moves.append(-task.rate_of(step + 1) * momenta[rank])
        weights.take_weights()
        if how == "adasum":
            weights.flat += adaptive_sum(moves, parameters.table())
        else:
            weights.flat += sum(moves) / (task.ranks if how == "mean" else 1)
        weights.give_weights()
    return task.accuracy(model)


@dataclasses.dataclass(frozen=True)
class Sizes(Figure):
    has_ranks = True
    task: Any
    ranks: tuple[int, ...]  # numbers of ranks for the sum, the mean and the adaptive sum
    other_ranks: tuple[int, ...]  # more numbers of ranks, for the adaptive sum only
    rules: tuple[Rule, ...]  # rules for accuracies; keys of the rows: (how, ranks)
    fast: tuple[tuple[str, int], ...]
    fast_share: int = 1  # divisor of the number of steps in a fast training
    dtype: torch.dtype = torch.float64

    def run(self, seeds: int, by_ranks: bool, is_fast: bool) -> Result:
        cells = [("one rank", 1)] + [(how, ranks) for how in HOW for ranks in self.ranks]
        cells += [("adasum", ranks) for ranks in self.other_ranks]
        if by_ranks:
            return self._run_by_ranks(seeds)
        if is_fast:
            cells = self.fast
        share = self.fast_share if is_fast else 1
        found = trainings_of(cells, seeds, lambda cell, seed: self._train(seed, *cell, share))
        means = {cell: statistics.mean(all) for cell, all in found.items()}
        return self._result(found, checked(self.rules, means))

    def _train(self, seed: int, how: str, ranks: int, share: int) -> float:
        task = self.task(seed, self.dtype, ranks)
        task.steps //= share
        return train(task, how)

    def _run_by_ranks(self, seeds: int) -> Result:
        """Runs the optimizer of the library, and simulates the same trainings for comparison."""
        found: dict[tuple[str, int], list[float]] = {}
        rules = []
        for ranks in (3, 4, 7, 8):
            told = list(lines_of_ranks(ranks, "adasum_ranks.py", {"task": self.task.__name__, "seeds": seeds}))
            found["adasum", ranks] = [each["accuracy"] for each in told]
            found["adasum, simulated", ranks] = [train(self.task(seed, torch.float64, ranks), "adasum")
                                                 for seed in range(seeds)]
            ours, theirs = (statistics.mean(found[name, ranks]) for name in ("adasum", "adasum, simulated"))
            rules.append((f"{ranks} ranks: within 1 point of the simulation", abs(ours - theirs) <= 0.010))
            rules.append((f"{ranks} ranks: the same bits everywhere", all(each["are_alike"] for each in told)))
            progress(ranks, 8, f"{ranks} ranks")
        return self._result(found, rules)

    def _result(self, found: dict[tuple[str, int], list[float]], rules: list[tuple[str, bool]]) -> Result:
        rows = {f"{how}, {ranks} ranks": {"ranks": ranks, "batch": ranks * self.task.batch,
                                          "accuracy": statistics.mean(all), "+-": statistics.pstdev(all)}
                for (how, ranks), all in found.items()}
        return Result(rows, rules, {f"{how}, {ranks} ranks": all for (how, ranks), all in found.items()},
                      axes=("ranks", "accuracy"), are_curves=True)


def _at_least(how: str, ranks: int, least: float) -> Rule:
    return Rule(f"{how} on {ranks} ranks: at least {100 * least:g} %", ((how, ranks),), lambda one: one >= least)


def _at_most(how: str, ranks: int, most: float) -> Rule:
    return Rule(f"{how} on {ranks} ranks: at most {100 * most:g} %", ((how, ranks),), lambda one: one <= most)


def _is_below(how: str, ranks: int, least: float) -> Rule:
    return Rule(f"{how} on {ranks} ranks: at least {100 * least:g} points below adasum",
                ((how, ranks), ("adasum", ranks)), lambda one, ours: one <= ours - least)


def _is_near(ranks: int, other: int) -> Rule:
    return Rule(f"adasum on {ranks} ranks: within 1.5 points of {other}", (("adasum", ranks), ("adasum", other)),
                lambda one, two: abs(one - two) <= 0.015)


def _keeps(ranks: int, most: float) -> Rule:
    return Rule(f"adasum on {ranks} ranks: at most {100 * most:g} points below one rank",
                (("adasum", ranks), ("one rank", 1)), lambda ours, one: ours >= one - most)


DIGITS_RULES = (*(_at_least("adasum", ranks, 0.955) for ranks in (4, 8, 16, 32)),
                _at_most("sum", 16, 0.75), _at_most("sum", 32, 0.40), _is_below("mean", 32, 0.04),
                *(_is_near(*pair) for pair in ((3, 4), (6, 8), (7, 8), (12, 16))))
FASHION_RULES = (_keeps(4, 0.03), _keeps(8, 0.08),
                 *(_is_below("mean", ranks, least) for ranks, least in ((4, 0.03), (8, 0.03), (16, 0.06), (32, 0.09))),
                 _is_below("sum", 4, 0.08), _is_below("sum", 8, 0.08), _at_most("sum", 16, 0.30),
                 _at_most("sum", 32, 0.30))


PAPER = ("Maleki et al., MLSys 2021, Fig. 4: LeNet-5 on MNIST at the rate of one rank; the sum fails beyond 8 ranks, "
         "Adasum still converges on 32")
FIGURES = {
    "x4": Sizes("digits, the sum, the mean and Adasum by number of ranks", PAPER, 4, Microbatches, (4, 8, 16, 32),
                (3, 6, 7, 12), DIGITS_RULES, tuple((how, ranks) for how in HOW for ranks in (16, 32))),
    "x5": Sizes("Fashion-MNIST, a LeNet, the sum, the mean and Adasum by number of ranks", PAPER, 2, Fashion,
                (4, 8, 16, 32), (), FASHION_RULES, (("mean", 16), ("adasum", 16)), 2, torch.float32),
}
