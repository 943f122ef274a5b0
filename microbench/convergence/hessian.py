"""The distance between sums of gradients and sequential SGD (Maleki et al., arXiv:2006.02924, Fig. 2)."""

from __future__ import annotations

import statistics
from typing import Any, Iterator

import torch

from adasum import HOW
from adasum_training import Training
from result import Figure, Result, progress
from tasks import Microbatches

RATES = {4: (0.05, 0.1, 0.2, 0.4), 16: (0.02, 0.05, 0.1, 0.2)}  # learning rates, by number of ranks
Errors = list[tuple[float, float]]  # for each step, the relative distances to n steps of SGD, and to their emulation by
                                    # Hessians


class Constant(Microbatches):
    """Plain SGD at a constant rate."""

    momentum = 0.0

    def __init__(self, seed: int, ranks: int, rate: float) -> None:
        super().__init__(seed, torch.float64, ranks)
        self.rate = rate

    def rate_of(self, round: int) -> float:
        return self.rate


def emulated(training: Training, step: int) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Returns the gradients of all ranks, and an approximation of sequential(), to first order in the learning rate."""
    gradients: list[torch.Tensor] = []
    total = torch.zeros(training.parameters.count, dtype=training.parameters.dtype)
    for rank in range(training.task.ranks):
        gradient = training.gradient(training.task, rank, step, create_graph=True)
        gradients.append(gradient.detach())
        total = total + gradients[-1] - training.task.rate * training.derivative(gradient @ total)
    return gradients, total


def sequential(training: Training, step: int) -> torch.Tensor:
    """Returns the sum of the gradients of sequential SGD: each rank's gradient is computed after the previous rank's
    step."""
    weights = training.parameters.vector()
    weights.take_weights()
    begin, total = weights.flat.clone(), torch.zeros_like(weights.flat)
    for rank in range(training.task.ranks):
        total += training.gradient(training.task, rank, step)
        weights.flat.copy_(begin - training.task.rate * total)
        weights.give_weights()
    weights.flat.copy_(begin)
    weights.give_weights()
    return total


def train(task: Constant) -> dict[str, Errors]:
    training = Training(task)
    found: dict[str, Errors] = {how: [] for how in (*HOW, "hessian")}
    for step in range(task.steps):
        gradients, by_hessian = emulated(training, step)
        by_sgd, total = sequential(training, step), sum(gradients)
        updates = {"sum": total, "mean": total / task.ranks, "adasum": training.combined(gradients),
                   "hessian": by_hessian}
        for how, update in updates.items():
            found[how].append(tuple(((update - of).norm() / of.norm()).item() for of in (by_sgd, by_hessian)))
        training.step(step, updates["adasum"])
    return found


def columns(ranks: int, rate: float, trainings: list[Errors]) -> dict[str, Any]:
    to_sgd = [[error for error, _ in training] for training in trainings]
    to_hessian = [[error for _, error in training] for training in trainings]
    quarter = len(to_sgd[0]) // 4

    def mean(errors: list[list[float]]) -> float:
        return statistics.mean(map(statistics.mean, errors))

    return {"ranks": ranks, "rate": rate, "to SGD": mean(to_sgd), "to Hessian": mean(to_hessian),
            "first quarter": mean([each[:quarter] for each in to_sgd]),
            "last quarter": mean([each[-quarter:] for each in to_sgd])}


def rules(cells: list[tuple[int, float]], rows: dict[str, dict[str, Any]]) -> Iterator[tuple[str, bool]]:
    for ranks, rate in cells:
        total, mean, ours, exact = (rows[f"{how} on {ranks} ranks, {rate}"] for how in (*HOW, "hessian"))
        where = f"{ranks} ranks, rate {rate}: "

        def is_nearer(most: float, than: dict[str, Any]) -> bool:
            return all(ours[column] <= most * than[column] for column in ("to SGD", "to Hessian"))

        yield where + "adasum at most 0.95 of the mean's distance, to both", is_nearer(0.95, mean)
        if rate == RATES[ranks][0]:
            yield where + "the sum nearer to SGD than adasum", total["to SGD"] < ours["to SGD"]
        if rate == RATES[ranks][-1]:
            yield where + "adasum at most 0.9 of the sum's distance, to both", is_nearer(0.9, total)
        else:
            yield where + "hessian within 0.25 of SGD", exact["to SGD"] <= 0.25
        if ranks == 4:
            yield (where + "adasum in the last quarter at most 0.9 of its distance in the first",
                   ours["last quarter"] <= 0.9 * ours["first quarter"])


class Hessian(Figure):
    def run(self, seeds: int, by_ranks: bool, is_fast: bool) -> Result:
        cells = [(ranks, rate) for ranks, rates in RATES.items() for rate in (rates[::3] if is_fast else rates)]
        rows, told = {}, {}
        for done, (ranks, rate) in enumerate(cells):
            found = [train(Constant(seed, ranks, rate)) for seed in range(seeds)]
            for how in found[0]:
                name = f"{how} on {ranks} ranks, {rate}"
                told[name] = [each[how] for each in found]
                rows[name] = columns(ranks, rate, told[name])
            progress(done + 1, len(cells), f"{ranks} ranks, rate {rate}")
        return Result(rows, list(rules(cells, rows)), told, axes=("rate", "to SGD"), are_curves=True)


FIGURES = {"hessian": Hessian(
    "digits, distance of the sum, the mean and Adasum to SGD step by step",
    "Maleki et al., arXiv:2006.02924, Fig. 2: LeNet-5 on MNIST, 64 ranks, against an emulation by exact Hessians; "
    "Adasum's error is below that of synchronous SGD, and close to zero at some steps", 4)}
