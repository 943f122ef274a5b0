"""Training with many ranks at the learning rate of one rank: the updates are combined by sum, mean or adaptive sum."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any

import torch

from libsched.torch._parameters import Parameters
from result import Figure, Result, lines_of_ranks, progress
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
    rules: Any  # a function: accuracies by (how, ranks) -> [(text, holds)]
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
        found: dict[tuple[str, int], list[float]] = {}
        for done, (how, ranks) in enumerate(cells):
            found[how, ranks] = [self._train(seed, ranks, how, self.fast_share if is_fast else 1)
                                 for seed in range(seeds)]
            progress(done + 1, len(cells), f"{how}, {ranks} ranks")
        means = {cell: statistics.mean(all) for cell, all in found.items()}
        return self._result(found, [(text, holds) for text, needs, holds in self.rules(means) if needs <= set(means)])

    def _train(self, seed: int, ranks: int, how: str, share: int) -> float:
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


def _rules_of_digits(of: dict[tuple[str, int], float]) -> Any:
    for ranks in (4, 8, 16, 32):
        yield (f"adasum on {ranks} ranks: at least 95.5 %", {("adasum", ranks)},
               of.get(("adasum", ranks), 0) >= 0.955)
    yield "sum on 16 ranks: at most 75 %", {("sum", 16)}, of.get(("sum", 16), 0) <= 0.75
    yield "sum on 32 ranks: at most 40 %", {("sum", 32)}, of.get(("sum", 32), 0) <= 0.40
    yield ("mean on 32 ranks: at least 4 points below adasum", {("mean", 32), ("adasum", 32)},
           of.get(("mean", 32), 1) <= of.get(("adasum", 32), 0) - 0.04)
    for ranks, near in ((3, 4), (6, 8), (7, 8), (12, 16)):
        yield (f"adasum on {ranks} ranks: within 1.5 points of {near}", {("adasum", ranks), ("adasum", near)},
               abs(of.get(("adasum", ranks), 0) - of.get(("adasum", near), 1)) <= 0.015)


def _rules_of_fashion(of: dict[tuple[str, int], float]) -> Any:
    def at(how: str, ranks: int) -> float:
        return of.get((how, ranks), 0.0)

    for ranks, most in ((4, 0.03), (8, 0.08)):
        yield (f"adasum on {ranks} ranks: at most {100 * most:.0f} points below one rank",
               {("adasum", ranks), ("one rank", 1)}, at("adasum", ranks) >= at("one rank", 1) - most)
    for ranks, least in ((4, 0.03), (8, 0.03), (16, 0.06), (32, 0.09)):
        yield (f"adasum on {ranks} ranks: at least {100 * least:.0f} points above the mean",
               {("adasum", ranks), ("mean", ranks)}, at("adasum", ranks) - at("mean", ranks) >= least)
    for ranks in (4, 8):
        yield (f"sum on {ranks} ranks: at least 8 points below adasum", {("sum", ranks), ("adasum", ranks)},
               at("sum", ranks) <= at("adasum", ranks) - 0.08)
    for ranks in (16, 32):
        yield f"sum on {ranks} ranks: at most 30 %", {("sum", ranks)}, at("sum", ranks) <= 0.30


PAPER = ("Maleki et al., MLSys 2021, Fig. 4: LeNet-5 on MNIST at the rate of one rank; the sum fails beyond 8 ranks, "
         "Adasum still converges on 32")
FIGURES = {
    "x4": Sizes("digits, the sum, the mean and Adasum by number of ranks", PAPER, 4, Microbatches, (4, 8, 16, 32),
                (3, 6, 7, 12), _rules_of_digits, tuple((how, ranks) for how in HOW for ranks in (16, 32))),
    "x5": Sizes("Fashion-MNIST, a LeNet, the sum, the mean and Adasum by number of ranks", PAPER, 2, Fashion,
                (4, 8, 16, 32), (), _rules_of_fashion, (("mean", 16), ("adasum", 16)), 2, torch.float32),
}
