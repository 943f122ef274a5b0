"""Training in which ranks exchange a few percent of the gradient, with and without error feedback."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any, Callable

import torch

from libsched.torch._parameters import Parameters
from result import Figure, Result, lines_of_ranks, trainings_of
from tasks import Sparse, Task

RANKS = 8


@dataclasses.dataclass(frozen=True)
class Row:
    algorithm: str  # "dense", "oktopk", "topka"
    density: float = 1.0
    has_residual: bool = True
    warmup: int = 0  # number of dense steps at the beginning

    def __str__(self) -> str:
        if self.algorithm == "dense":
            return "dense"
        return f"{self.algorithm}, {100 * self.density:g} %" + ("" if self.has_residual else ", residual dropped")


def largest(vector: torch.Tensor, k: int) -> torch.Tensor:
    """Returns a mask of the k largest elements."""
    found = torch.zeros_like(vector, dtype=torch.bool)
    found[vector.abs().topk(k).indices] = True
    return found


Selector = Callable[[torch.Tensor, int], torch.Tensor]  # (vector, k) -> a mask of about k elements


def combine(residuals: list[torch.Tensor], row: Row, k: int, selectors: list[Selector]) -> torch.Tensor:
    """Returns the update of a round, divided by the number of ranks. Removes the elements of the update from the
    residuals (Li and Hoefler, PPoPP 2022, Algorithm 1). The last selector selects from the sum of the sent elements,
    and each other selector selects from the residual of a rank."""
    if row.algorithm == "dense":
        update = sum(residuals) / len(residuals)
        for each in residuals:
            each.zero_()
        return update
    sent = [select(each, k) for select, each in zip(selectors, residuals)]
    total = sum(each * chosen for each, chosen in zip(residuals, sent))
    kept = selectors[-1](total, k) if row.algorithm == "oktopk" else torch.ones_like(sent[0])
    for each, chosen in zip(residuals, sent):
        each[(chosen & kept) if row.has_residual else torch.ones_like(chosen)] = 0
    return total * kept / len(residuals)


def trained(task: Task, row: Row, selectors: list[Selector] | None = None) -> torch.nn.Module:
    """Returns the trained model. The selectors are those of combine(). By default, the largest k elements are sent."""
    selectors = selectors or [largest] * (task.ranks + 1)
    model = task.model()
    opt = task.optimizer(model)
    parameters = Parameters(model.named_parameters())
    k = max(1, round(row.density * parameters.count))
    gradient = parameters.vector()
    residuals = [torch.zeros_like(gradient.flat) for _ in range(task.ranks)]
    for step in range(task.steps):
        for rank, residual in enumerate(residuals):
            model.zero_grad()
            task.loss(model, rank, step).backward()
            gradient.take_gradients()
            residual += gradient.flat
        gradient.flat.copy_(combine(residuals, DENSE if step < row.warmup else row, k, selectors))
        gradient.be_gradients()
        opt.param_groups[0]["lr"] = task.rate_of(step + 1)
        opt.step()
    return model


@torch.no_grad()
def loss_of_all(task: Sparse, model: torch.nn.Module) -> float:
    return task.loss_of(model, slice(None)).item()


DENSE, TWO, ONE, TENTH = Row("dense"), Row("oktopk", 0.02), Row("oktopk", 0.01), Row("oktopk", 0.001)
TOPKA, DROPPED = Row("topka", 0.01), Row("oktopk", 0.01, False)


class Densities(Figure):
    has_ranks = True

    def run(self, seeds: int, by_ranks: bool, is_fast: bool) -> Result:
        rows = (DENSE, TWO, ONE) if by_ranks else (DENSE, TWO, ONE, TENTH, TOPKA, DROPPED)
        if is_fast and not by_ranks:
            rows = (DENSE, ONE, DROPPED)
        told: list[dict[str, Any]] = []

        def train(row: Row, seed: int) -> tuple[float, float]:
            if by_ranks:
                wanted = {"seed": seed, "density": 0.0 if row is DENSE else row.density}
                told.extend(lines_of_ranks(RANKS, "sparse_ranks.py", wanted))
                return told[-1]["accuracy"], told[-1]["loss"]
            task = Sparse(seed, torch.float64)
            task.steps //= 2 if is_fast else 1
            model = trained(task, row)
            return task.accuracy(model), loss_of_all(task, model)

        found = trainings_of(rows, seeds, train)
        accuracy = {row: statistics.mean(each for each, _ in all) for row, all in found.items()}
        loss = {row: statistics.mean(each for _, each in all) for row, all in found.items()}
        rules = [(f"{row}: at most 1 point below dense", accuracy[row] >= accuracy[DENSE] - 0.010)
                 for row in (TWO, ONE) if row in found]
        rules.append((f"{ONE}: at most twice the loss of dense, and 0.005", loss[ONE] <= 2 * loss[DENSE] + 0.005))
        if by_ranks:
            rules.append(("no rank sends or receives more than 6 k (P-1)/P words",
                          all(each["is_within"] for each in told)))
            rules.append(("a checkpoint in the middle, loaded into new objects: the same bits",
                          all(each["goes_on"] for each in told if each["is_sparse"])))
        else:
            rules.append(("without residuals: at least five times the loss", loss[DROPPED] >= 5 * loss[ONE]))
        return Result({str(row): {"accuracy": accuracy[row], "least": min(each for each, _ in found[row]),
                                  "loss": loss[row]} for row in rows}, rules,
                      {str(row): all for row, all in found.items()}, axes=("loss", "accuracy"))


FIGURES = {"x6": Densities("digits, the largest 2, 1 and 0.1 % of the gradient",
                           "Li and Hoefler, PPoPP 2022, Fig. 9: VGG-16 on CIFAR-10, 16 ranks, 1 and 2 %; the accuracy "
                           "of dense training within 0.7 points", 3)}
