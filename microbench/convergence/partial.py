"""Wait-avoiding training under imbalance: which policy loses how much accuracy, and gains how much time."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any, Callable

import torch

from policy import Outcome, Policy
from result import Result, lines_of_ranks, progress
from tasks import TASKS
from twin import Twin

RANKS = 8
Outcomes = dict[Policy, list[Outcome]]


@dataclasses.dataclass(frozen=True)
class Summary:
    """Of one policy, over all seeds."""

    accuracy: float  # mean over replicas, of the test set
    deviation: float
    least: float
    averaged: float  # of the average of all replicas
    speed: float  # how many times as fast as the first policy
    contributors: float
    staleness: float
    most_stale: int
    is_exact: bool

    def columns(self) -> dict[str, Any]:
        return {"accuracy": self.accuracy, "+-": self.deviation, "least": self.least, "averaged": self.averaged,
                "speed": self.speed, "contributors": self.contributors, "staleness": self.staleness,
                "most": self.most_stale}


def summary(outcomes: list[Outcome], first: list[Outcome]) -> Summary:
    accuracies = [each.accuracy for each in outcomes]
    times = statistics.mean(each.time for each in outcomes)
    return Summary(
        accuracy=statistics.mean(accuracies), deviation=statistics.pstdev(accuracies), least=min(accuracies),
        averaged=statistics.mean(each.averaged for each in outcomes),
        speed=statistics.mean(each.time for each in first) / times,
        contributors=statistics.mean(statistics.mean(each.contributors) for each in outcomes),
        staleness=statistics.mean(statistics.mean(each.staleness) for each in outcomes),
        most_stale=max(max(each.staleness) for each in outcomes), is_exact=all(each.is_exact for each in outcomes))


Rule = tuple[str, Callable[[dict[Policy, Summary]], bool]]


@dataclasses.dataclass(frozen=True)
class Figure:
    about: str
    paper: str
    task: str
    unit: float  # seconds, of ranks that are processes
    seeds: int
    policies: tuple[Policy, ...]
    rules: tuple[Rule, ...]

    def run(self, seeds: int, by_ranks: bool, is_fast: bool) -> Result:
        jobs = [(seed, policy) for policy in self.policies for seed in range(seeds)]
        outcomes: Outcomes = {policy: [] for policy in self.policies}
        for done, ((_, policy), outcome) in enumerate(zip(jobs, (self._ranks if by_ranks else self._twin)(jobs),
                                                          strict=True)):
            outcomes[policy].append(outcome)
            progress(done + 1, len(jobs), str(policy))
        of = {policy: summary(all, outcomes[self.policies[0]]) for policy, all in outcomes.items()}
        return Result(rows={str(policy): each.columns() for policy, each in of.items()},
                      rules=[(text, rule(of)) for text, rule in self.rules],
                      trainings={str(policy): [vars(each) for each in all] for policy, all in outcomes.items()},
                      axes=("speed", "accuracy"))

    def _twin(self, jobs: list[tuple[int, Policy]]):
        for seed, policy in jobs:
            yield Twin(TASKS[self.task](seed, torch.float64), policy, self.unit).run()

    def _ranks(self, jobs: list[tuple[int, Policy]]):
        wanted = {"task": self.task, "unit": self.unit,
                  "jobs": [[seed, [policy.activation, policy.lag, policy.average_every]] for seed, policy in jobs]}
        for told in lines_of_ranks(RANKS, "ranks.py", wanted):
            yield Outcome(**told)


FULL, SOLO, MAJORITY = Policy("full"), Policy("solo"), Policy("majority")
SUM, PAST = Policy("solo", "accumulate"), Policy("solo", "history")
MAJORITY_SUM, MAJORITY_PAST = Policy("majority", "accumulate"), Policy("majority", "history")
QUORUM, QUORUM_PAST = Policy("quorum(6)"), Policy("quorum(6)", "history")
AVERAGED = Policy("solo", "latest", 22)
DEADLINES = tuple(Policy(f"deadline({us})", "history") for us in (5000, 10000, 15000))


def _loses(policy: Policy, least: float) -> Rule:
    return (f"{policy}: at least {100 * least:.1f} points below full",
            lambda of: of[FULL].accuracy - of[policy].accuracy >= least)


def _keeps(policy: Policy, most: float) -> Rule:
    return (f"{policy}: at most {100 * most:.1f} points below full",
            lambda of: of[FULL].accuracy - of[policy].accuracy <= most)


def _is_better(policy: Policy, other: Policy, by: float) -> Rule:
    return (f"{policy}: at least {100 * by:.1f} points above {other}",
            lambda of: of[policy].accuracy >= of[other].accuracy + by)


def _is_fast(policy: Policy, times: float) -> Rule:
    return f"{policy}: at least {times} times as fast as full", lambda of: of[policy].speed >= times


EXACT: Rule = ("every gradient in one round, averages the same bits", lambda of: all(x.is_exact for x in of.values()))

FIGURES = {
    "x1": Figure(
        about="digits, delays that rotate",
        paper="Li et al., PPoPP 2020, Fig. 12: ResNet-32 on CIFAR-10, 8 processes, severe imbalance; solo loses much "
              "accuracy, majority little, at 1.29 times the speed",
        task="digits", unit=5e-5, seeds=5,
        policies=(FULL, SOLO, MAJORITY, SUM, PAST, MAJORITY_SUM, MAJORITY_PAST, QUORUM, QUORUM_PAST, AVERAGED,
                  *DEADLINES),
        rules=(("full: at least 97.0 %", lambda of: of[FULL].accuracy >= 0.970),
               _loses(SOLO, 0.015), _keeps(MAJORITY, 0.015), _is_better(MAJORITY, SOLO, 0.015),
               _is_better(SUM, SOLO, 0.005), _is_better(AVERAGED, SOLO, 0.010),
               _keeps(MAJORITY_PAST, 0.008), _keeps(QUORUM_PAST, 0.008), _is_fast(SOLO, 1.3),
               _is_fast(MAJORITY, 1.12), _is_fast(MAJORITY_PAST, 1.12), _is_fast(QUORUM_PAST, 1.12), EXACT)),
    "x2": Figure(
        about="Japanese vowels of different lengths",
        paper="Li et al., PPoPP 2020, Fig. 13: an LSTM on UCF101, whose videos differ in length; solo 1.46 and "
              "majority 1.26 times as fast, majority without loss",
        task="vowels", unit=5e-5, seeds=4,
        policies=(FULL, SOLO, MAJORITY, SUM, PAST, MAJORITY_SUM, MAJORITY_PAST),
        rules=(_keeps(MAJORITY, 0.010), _loses(SOLO, 0.0), _keeps(MAJORITY_PAST, 0.008),
               _is_fast(SOLO, 1.2), _is_fast(MAJORITY, 1.1), EXACT)),
    "x3": Figure(
        about="digits, one random rank late",
        paper="Li et al., PPoPP 2020, Fig. 11: ResNet-50 on ImageNet, 64 processes of which 4 are late in each step; "
              "solo twice as fast, and as good where weights are averaged every 10 epochs",
        task="digits_one_late", unit=5e-5, seeds=3,
        policies=(FULL, SOLO, MAJORITY, SUM, PAST, MAJORITY_PAST, QUORUM_PAST, AVERAGED),
        rules=(_keeps(AVERAGED, 0.015), _loses(SOLO, 0.020), _keeps(MAJORITY_PAST, 0.008),
               _is_fast(SOLO, 1.5), _is_fast(AVERAGED, 1.3), EXACT)),
}
