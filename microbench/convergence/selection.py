"""The elements that ranks select during a sparse training: the density of their sum, and the lengths of lists that an
estimated threshold selects (Li and Hoefler, PPoPP 2022, section 5.2 and Fig. 6)."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any

import torch

from result import Figure, Result, progress, trainings_of
from sparse import Row, largest, trained
from tasks import Sparse

PERIOD = 32  # rounds between two exact thresholds
FAST = 4  # divisor of the number of steps in a fast training


class Digits(Sparse):
    def __init__(self, seed: int, ranks: int, share: int) -> None:
        self.ranks = ranks
        super().__init__(seed, torch.float64)
        self.steps //= share


class Filled:
    """Selects the largest elements of the sums. Records the density of the sums."""

    def __init__(self) -> None:
        self.densities: list[float] = []

    def __call__(self, sums: torch.Tensor, k: int) -> torch.Tensor:
        self.densities.append(sums.count_nonzero().item() / len(sums))
        return largest(sums, k)


@dataclasses.dataclass(frozen=True)
class FillIn(Figure):
    published = {(16, 0.01): 0.132, (32, 0.02): 0.345}  # density of the sum, by (ranks, density of a list)

    def run(self, seeds: int, by_ranks: bool, is_fast: bool) -> Result:
        cells = dict(list(self.published.items())[:1]) if is_fast else self.published
        share = FAST if is_fast else 1
        found = trainings_of(cells, seeds, lambda cell, seed: self._train(seed, *cell, share))
        names = {cell: f"{cell[0]} ranks, {100 * cell[1]:g} %" for cell in cells}
        rows = {names[cell]: {"ranks": cell[0], "density": cell[1],
                              "sum": statistics.mean(map(statistics.mean, found[cell])),
                              "independent": 1 - (1 - cell[1]) ** cell[0], "published": cells[cell]} for cell in cells}
        rules = [(f"{name}: between the density of one list and that of independent lists",
                  row["density"] <= row["sum"] <= row["independent"]) for name, row in rows.items()]
        return Result(rows, rules, {names[cell]: all for cell, all in found.items()}, axes=("ranks", "sum"))

    @staticmethod
    def _train(seed: int, ranks: int, density: float, share: int) -> list[float]:
        sums = Filled()
        trained(Digits(seed, ranks, share), Row("oktopk", density), [*[largest] * ranks, sums])
        return sums.densities


class Reused:
    """Selects by the exact threshold in every PERIOD-th round, and by the last exact threshold in all other rounds."""

    def __init__(self) -> None:
        self.ratios: list[float] = []  # number of selected elements of each round, divided by k

    def __call__(self, vector: torch.Tensor, k: int) -> torch.Tensor:
        if len(self.ratios) % PERIOD == 0:
            self._threshold = vector.abs().topk(k).values[-1]
        chosen = vector.abs() >= self._threshold
        self.ratios.append(chosen.sum().item() / k)
        return chosen


class Gaussian:
    """Selects the largest elements. Records how many elements Gaussiank would select (Shi and others, 2019). Gaussiank
    selects the elements beyond a threshold. This threshold would select k elements of a normal distribution with the
    same mean and deviation."""

    def __init__(self) -> None:
        self.ratios: list[float] = []

    def __call__(self, vector: torch.Tensor, k: int) -> torch.Tensor:
        quantile = torch.special.ndtri(torch.tensor(1 - k / (2 * len(vector)), dtype=vector.dtype))
        threshold = vector.mean() + vector.std() * quantile
        self.ratios.append((vector.abs() > threshold).sum().item() / k)
        return largest(vector, k)


Ratios = list[list[float]]  # by training and rank


@dataclasses.dataclass(frozen=True)
class Thresholds(Figure):
    ranks = 4
    density = 0.02

    def run(self, seeds: int, by_ranks: bool, is_fast: bool) -> Result:
        told: dict[str, Ratios] = {"reused, lists": [], "reused, sums": [], "Gaussian, lists": []}
        for seed in range(seeds):
            for name, kind, of_sums in (("reused", Reused, Reused()), ("Gaussian", Gaussian, largest)):
                of_ranks = [kind() for _ in range(self.ranks)]
                trained(Digits(seed, self.ranks, FAST if is_fast else 1), Row("oktopk", self.density),
                        [*of_ranks, of_sums])
                told[f"{name}, lists"] += [each.ratios for each in of_ranks]
                if kind is Reused:
                    told["reused, sums"].append(of_sums.ratios)
            progress(seed + 1, seeds, f"seed {seed}")
        rows = {name: self._columns(all) for name, all in told.items()}
        return Result(rows, self._rules(rows), told, axes=("k, first quarter", "k, later"))

    @staticmethod
    def _columns(all: Ratios) -> dict[str, Any]:
        quarter = len(all[0]) // 4

        def mean(of: Ratios) -> float:
            return statistics.mean(map(statistics.mean, of))

        parts = {"first quarter": [each[:quarter] for each in all], "later": [each[quarter:] for each in all]}
        return {**{f"k, {name}": mean(part) for name, part in parts.items()},
                **{f"deviation, {name}": mean([[abs(ratio - 1) for ratio in each] for each in part])
                   for name, part in parts.items()}}

    @staticmethod
    def _rules(rows: dict[str, dict[str, Any]]) -> list[tuple[str, bool]]:
        reused, gaussian = rows["reused, lists"], rows["Gaussian, lists"]
        return [("Gaussian: at most half of k later", gaussian["k, later"] <= 0.5),
                ("reused: later nearer to k than the Gaussian estimate",
                 reused["deviation, later"] < gaussian["deviation, later"])]


LI = "Li and Hoefler, PPoPP 2022, "
FIGURES = {
    "fill_in": FillIn("digits, density of the sum of all ranks' lists",
                      LI + "section 5.2: 13.2 % (VGG-16, 16 ranks, 1 %) and 34.5 % (LSTM, 32 ranks, 2 %)", 1),
    "thresholds": Thresholds("digits, lengths of lists that a reused or an estimated threshold selects, 2 %",
                             LI + "Fig. 6: below 11 % from k on average; Gaussiank selects too many elements at "
                             "first, and later a tenth of k", 1),
}
