"""Orthogonality of the gradients of microbatches during a training with Adasum (Maleki et al., MLSys 2021, Fig. 2)."""

from __future__ import annotations

from typing import Any, Iterator

import torch

from adasum_training import Training
from result import Figure, Result, progress
from tasks import Microbatches

RANKS = 8  # ranks that train
POINTS = (0, 10, 25, 50, 75, 100)  # percent of the steps
RISES = {4: 0.01, 8: 0.03, 16: 0.10, 32: 0.15}  # minimum rise over the training, by number of gradients
MOST = max(RISES)

Found = dict[tuple[int, int], list[torch.Tensor]]  # by (gradients, point): a matrix (groups x tensors) for each seed


def orthogonality(training: Training, gradients: list[torch.Tensor]) -> list[float]:
    """Returns a number for each tensor: 1 if the gradients are orthogonal, 1/n if n gradients are equal."""
    update = training.combined(gradients)
    parts = [slice(begin, begin + count) for begin, count in training.parameters.table()]
    return [(update[part].square().sum() / sum(each[part].square().sum() for each in gradients)).item()
            for part in parts]


def look(training: Training, seen: Microbatches, point: int, found: Found) -> None:
    """Measures the orthogonality of groups of 4 to 32 microbatches, over all microbatches of one epoch. The epoch is
    the same at each point of the training."""
    values: dict[int, list[list[float]]] = {n: [] for n in RISES}
    for step in range(seen.epoch):
        gradients = [training.gradient(seen, rank, step) for rank in range(MOST)]
        for n in RISES:
            values[n] += [orthogonality(training, gradients[begin:begin + n]) for begin in range(0, MOST, n)]
    for n in RISES:
        found[n, point].append(torch.tensor(values[n], dtype=torch.float64))


def train(seed: int, found: Found) -> list[str]:
    """Adds measurements to `found`. Returns the names of the tensors."""
    task, seen = (Microbatches(seed, torch.float64, ranks) for ranks in (RANKS, MOST))
    training = Training(task)
    points = {point * task.steps // 100: point for point in POINTS}
    for step in range(task.steps + 1):
        if step in points:
            look(training, seen, points[step], found)
        if step < task.steps:
            training.step(step, training.combined([training.gradient(task, rank, step) for rank in range(RANKS)]))
    return training.parameters.names


def rules(rows: dict[str, dict[str, Any]], names: list[str], found: Found) -> Iterator[tuple[str, bool]]:
    def at(n: int, point: int) -> float:
        return rows[f"{n} gradients, {point} %"]["orthogonality"]

    yield ("orthogonality of each group and tensor: from 0 to 1",
           all(((each >= 0) & (each <= 1 + 1e-12)).all().item() for all_seeds in found.values() for each in all_seeds))
    for n, rise in RISES.items():
        yield (f"{n} gradients: each tensor's mean from 1/{n} to 1",
               all(1 / n <= rows[f"{n} gradients, {point} %"][name] <= 1 for point in POINTS for name in names))
        yield f"{n} gradients: the end at least {rise:.2f} above the beginning", at(n, 100) >= at(n, 0) + rise
        if n < MOST:
            yield (f"{2 * n} gradients: at least 0.01 below {n} at each point",
                   all(at(2 * n, point) <= at(n, point) - 0.01 for point in POINTS))


class Orthogonality(Figure):
    def run(self, seeds: int, by_ranks: bool, is_fast: bool) -> Result:
        found: Found = {(n, point): [] for n in RISES for point in POINTS}
        for seed in range(seeds):
            names = train(seed, found)
            progress(seed + 1, seeds, f"seed {seed}")
        rows = {}
        for (n, point), values in found.items():
            by_tensor = torch.cat(values).mean(0)
            rows[f"{n} gradients, {point} %"] = {
                "gradients": n, "% trained": point, "orthogonality": by_tensor.mean().item(),
                **dict(zip(names, by_tensor.tolist()))}
        return Result(rows, list(rules(rows, names, found)),
                      {name: [each.tolist() for each in values] for name, values in zip(rows, found.values())},
                      axes=("% trained", "orthogonality"), are_curves=True)


FIGURES = {"orthogonality": Orthogonality(
    "digits, orthogonality of 4 to 32 gradients over a training",
    "Maleki et al., MLSys 2021, Fig. 2 (preprint Fig. 1): ResNet-50 and BERT-Large on 64 GPUs; gradients point the "
    "same way at first and become orthogonal, at a different pace in each layer", 4)}
