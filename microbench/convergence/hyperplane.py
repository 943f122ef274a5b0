"""Eager-SGD on a hyperplane through libsched.torch (Li et al., PPoPP 2020, Fig. 10): speed and validation loss."""

from __future__ import annotations

from typing import Any

from partial import EXACT, FULL, PAST, SOLO, Policies
from policy import Policy
from result import Figure, Result

SPEEDS = {200: 1.50, 300: 1.75, 400: 2.01}  # speed of solo in the paper; key: delay of the late rank in ms
UNIT = 5e-5  # seconds per millisecond of the paper, if ranks are processes
AVERAGED = Policy("solo", "latest", 16)

Rows = dict[tuple[int, Policy], dict[str, Any]]


class Hyperplane(Figure):
    has_ranks = True

    def run(self, seeds: int, by_ranks: bool, is_fast: bool) -> Result:
        policies = (FULL, PAST) if by_ranks or is_fast else (FULL, PAST, AVERAGED, SOLO)
        of: Rows = {}
        trainings: dict[str, Any] = {}
        is_exact = True
        for late in (200, 400) if is_fast else SPEEDS:
            figure = Policies(f"{late} ms late", self.paper, self.seeds, f"hyperplane_{late}", UNIT, policies, (),
                              policies)
            result = figure.run(seeds, by_ranks, is_fast)
            of.update({(late, policy): self._row(late, result.rows[str(policy)]) for policy in policies})
            trainings.update({_name(late, policy): result.trainings[str(policy)] for policy in policies})
            is_exact = is_exact and result.rules[0][1]
        rules = [*_rules(of, 0.25 if by_ranks else 0.15), (EXACT, is_exact)]
        return Result({_name(*cell): row for cell, row in of.items()}, rules, trainings, axes=("late", "speed"))

    @staticmethod
    def _row(late: int, told: dict[str, Any]) -> dict[str, Any]:
        return {"late": late, "loss": told["accuracy"], "+-": told["+-"], "averaged": told["averaged"],
                **{name: told[name] for name in ("speed", "contributors", "staleness", "most")}}


def _name(late: int, policy: Policy) -> str:
    return f"{late} ms, {policy}"


def _rules(of: Rows, near: float) -> list[tuple[str, bool]]:
    """Returns the rules. `near` is the allowed relative distance of speeds from those of the paper."""
    losses: dict[Policy, list[float]] = {}  # losses relative to those of full, by policy
    for (late, policy), row in of.items():
        losses.setdefault(policy, []).append(row["loss"] / of[late, FULL]["loss"])
    rules = [(f"{policy}: the loss of full within {100 * most:.0f} %, for all delays",
              max(abs(each - 1) for each in losses[policy]) <= most)
             for policy, most in ((PAST, 0.05), (AVERAGED, 0.10)) if policy in losses]
    if SOLO in losses:
        rules.append((f"{SOLO}: at least 10 times the loss of full, since replicas lose updates",
                      min(losses[SOLO]) >= 10))
    speeds = {late: row["speed"] for (late, policy), row in of.items() if policy == PAST}
    ordered = list(speeds.values())
    rules.append((f"{PAST}: the longer the delay, the greater the speed",
                  all(a < b for a, b in zip(ordered, ordered[1:]))))
    rules += [(f"{_name(late, PAST)}: {SPEEDS[late]} times as fast as full within {100 * near:.0f} %",
               abs(speed / SPEEDS[late] - 1) <= near) for late, speed in speeds.items()]
    return rules


PAPER = ("Li et al., PPoPP 2020, Fig. 10: 8,192 coefficients, 8 processes of which one is late in each step; solo "
         "1.50, 1.75, 2.01 times as fast, the same validation loss")
FIGURES = {"hyperplane": Hyperplane("linear regression, one random rank 200, 300, 400 ms late", PAPER, 3)}
