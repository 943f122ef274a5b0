"""Language tasks trained with a few percent of the gradient: a character model (loss), and an LSTM (error rate).

The figures correspond to Fig. 13 (BERT's pre-training) and Fig. 11 (an LSTM for speech) of Li and Hoefler, PPoPP 2022,
at small scale.
"""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any, Callable

import torch

from result import Figure, Result, trainings_of
from sparse import DENSE, Row, trained
from text_task import ShortSpeakers, ShortText, Speakers, Text

Means = dict[Row, dict[str, float]]
Rules = list[tuple[str, bool]]


@dataclasses.dataclass(frozen=True)
class Scale:
    """The size of a training: the full size, or a small size for a run of some seconds."""

    task: Any
    rows: tuple[Row, ...]
    rules: Callable[[Means], Rules]


@dataclasses.dataclass(frozen=True)
class Language(Figure):
    dtype: torch.dtype
    axes: tuple[str, str]
    full: Scale
    fast: Scale

    def run(self, seeds: int, by_ranks: bool, is_fast: bool) -> Result:
        scale = self.fast if is_fast else self.full

        def train(row: Row, seed: int) -> dict[str, float]:
            task = scale.task(seed, self.dtype)
            return task.measures(trained(task, row))

        found = trainings_of(scale.rows, seeds, train)
        means = {row: {name: statistics.mean(each[name] for each in all) for name in all[0]}
                 for row, all in found.items()}
        return Result({str(row): columns for row, columns in means.items()}, scale.rules(means),
                      {str(row): all for row, all in found.items()}, self.axes)


def _text_rows(warmup: int) -> tuple[Row, Row, Row]:
    """Returns rows that begin with dense training for `warmup` steps, as OkTopkState(warmup_steps=...) does."""
    return DENSE, Row("oktopk", 0.01, warmup=warmup), Row("oktopk", 0.01, False, warmup=warmup)


def _text_rules(training: float, validation: float, dropped: float) -> Callable[[Means], Rules]:
    """Returns the rules. `training` and `validation` are maxima of (loss of 1 %) / (loss of dense training). `dropped`
    is the minimum of (loss without residuals) / (loss of 1 %)."""

    def rules(of: Means) -> Rules:
        dense, one, without = of.values()
        return [(f"1 %: at most {training} times the training loss of dense", one["loss"] <= training * dense["loss"]),
                (f"1 %: at most {validation} times the validation loss of dense",
                 one["validation"] <= validation * dense["validation"]),
                *((f"1 %, residual dropped: at least {dropped} times the {name} loss of 1 %",
                   without[column] >= dropped * one[column])
                  for name, column in (("training", "loss"), ("validation", "validation")))]

    return rules


TWO, TOPKA, DROPPED = Row("oktopk", 0.02), Row("topka", 0.02), Row("oktopk", 0.02, False)


def _error_rules(points: float, dropped: float) -> Callable[[Means], Rules]:
    """Returns the rules. The error may exceed the error of dense training by `points` percentage points. `dropped` is
    the minimum of (loss without residuals) / (loss of 2 %)."""

    def rules(of: Means) -> Rules:
        return [*((f"{row}: at most {points} points above dense", of[row]["error"] <= of[DENSE]["error"] + points)
                  for row in (TWO, TOPKA) if row in of),
                (f"2 %, residual dropped: at least {dropped} times the loss of 2 %",
                 of[DROPPED]["loss"] >= dropped * of[TWO]["loss"])]

    return rules


FIGURES = {
    "x7": Language("characters of Python's documentation, a GRU, the largest 1 % of the gradient",
                   "Li and Hoefler, PPoPP 2022, Fig. 13: BERT on Wikipedia, 32 ranks, 1 %; training loss 2.43, and "
                   "2.33 of dense training", 1, torch.float32, ("loss", "validation"),
                   Scale(Text, _text_rows(100), _text_rules(1.10, 1.07, 1.15)),
                   Scale(ShortText, _text_rows(20), _text_rules(1.20, 1.15, 1.03))),
    "error_rate": Language("Japanese vowels, an LSTM, the largest 2 % of the gradient",
                           "Li and Hoefler, PPoPP 2022, Fig. 11: an LSTM on AN4, 32 ranks, 2 %; word error rate .309, "
                           "and .308 of dense training", 3, torch.float64, ("loss", "error"),
                           Scale(Speakers, (DENSE, TWO, TOPKA, DROPPED), _error_rules(1.5, 3)),
                           Scale(ShortSpeakers, (DENSE, TWO, DROPPED), _error_rules(2.5, 2))),
}
