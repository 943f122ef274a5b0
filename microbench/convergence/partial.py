"""Wait-avoiding training under imbalance: the loss of accuracy and the gain of time of each policy."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any, Iterator

import torch

from policy import Outcome, Policy
from result import Figure, Result, Rule, checked, lines_of_ranks, progress
from tasks import TASKS
from twin import Twin

RANKS = 8
EXACT = "every gradient in one round, averages the same bits"
Outcomes = dict[Policy, list[Outcome]]


@dataclasses.dataclass(frozen=True)
class Summary:
    """The results of one policy, over all seeds."""

    accuracy: float  # mean over replicas, on the test set
    deviation: float
    least: float
    averaged: float  # accuracy of the average of all replicas
    speed: float  # speed relative to the first policy
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


@dataclasses.dataclass(frozen=True)
class Policies(Figure):
    has_ranks = True
    task: str
    unit: float  # seconds per unit, if ranks are processes
    policies: tuple[Policy, ...]
    rules: tuple[Rule, ...]
    fast: tuple[Policy, ...]
    fast_share: int = 1  # divisor of the number of steps in a fast training

    def run(self, seeds: int, by_ranks: bool, is_fast: bool) -> Result:
        policies = self.fast if is_fast else self.policies
        jobs = [(seed, policy) for policy in policies for seed in range(seeds)]
        outcomes: Outcomes = {policy: [] for policy in policies}
        for done, ((_, policy), outcome) in enumerate(zip(jobs, self._outcomes(jobs, by_ranks, is_fast), strict=True)):
            outcomes[policy].append(outcome)
            progress(done + 1, len(jobs), str(policy))
        of = {policy: summary(all, outcomes[policies[0]]) for policy, all in outcomes.items()}
        return Result(rows={str(policy): each.columns() for policy, each in of.items()},
                      rules=[*checked(self.rules, of), (EXACT, all(each.is_exact for each in of.values()))],
                      trainings={str(policy): [vars(each) for each in all] for policy, all in outcomes.items()},
                      axes=("speed", "accuracy"))

    def _outcomes(self, jobs: list[tuple[int, Policy]], by_ranks: bool, is_fast: bool) -> Iterator[Outcome]:
        if by_ranks:
            return self._ranks(jobs)
        return self._twin(jobs, self.fast_share if is_fast else 1)

    def _twin(self, jobs: list[tuple[int, Policy]], share: int) -> Iterator[Outcome]:
        for seed, policy in jobs:
            task = TASKS[self.task](seed, torch.float64)
            task.steps //= share
            yield Twin(task, policy, self.unit).run()

    def _ranks(self, jobs: list[tuple[int, Policy]]) -> Iterator[Outcome]:
        wanted = {"task": self.task, "unit": self.unit,
                  "jobs": [[seed, [policy.activation, policy.lag, policy.average_every]] for seed, policy in jobs]}
        for told in lines_of_ranks(RANKS, "ranks.py", wanted):
            yield Outcome(**told)


FULL, SOLO, MAJORITY = Policy("full"), Policy("solo"), Policy("majority")
SUM, PAST = Policy("solo", "accumulate"), Policy("solo", "history")
MAJORITY_SUM, MAJORITY_PAST = Policy("majority", "accumulate"), Policy("majority", "history")
QUORUM, QUORUM_PAST = Policy("quorum(6)"), Policy("quorum(6)", "history")
AVERAGED = Policy("solo", "latest", 22)
DEADLINE, AUTO = Policy("deadline(5000)", "history"), Policy("deadline(auto)", "history")


def _loses(policy: Policy, least: float) -> Rule:
    return Rule(f"{policy}: at least {100 * least:.1f} points below full", (FULL, policy),
                lambda full, one: full.accuracy - one.accuracy >= least)


def _keeps(policy: Policy, most: float) -> Rule:
    return Rule(f"{policy}: at most {100 * most:.1f} points below full", (FULL, policy),
                lambda full, one: full.accuracy - one.accuracy <= most)


def _is_better(policy: Policy, other: Policy, by: float) -> Rule:
    return Rule(f"{policy}: at least {100 * by:.1f} points above {other}", (policy, other),
                lambda one, two: one.accuracy >= two.accuracy + by)


def _is_fast(policy: Policy, times: float) -> Rule:
    return Rule(f"{policy}: at least {times} times as fast as full", (policy,), lambda one: one.speed >= times)


def _is_no_worse(policy: Policy, other: Policy) -> Rule:
    return Rule(f"{policy}: at most 0.5 points below {other}, and as fast", (policy, other),
                lambda one, two: one.accuracy >= two.accuracy - 0.005 and one.speed >= two.speed)


FIGURES = {
    "x1": Policies(
        about="digits, delays that rotate",
        paper="Li et al., PPoPP 2020, Fig. 12: ResNet-32 on CIFAR-10, 8 processes, severe imbalance; solo loses much "
              "accuracy, majority little, at 1.29 times the speed",
        task="digits", unit=5e-5, seeds=5,
        policies=(FULL, SOLO, MAJORITY, SUM, PAST, MAJORITY_SUM, MAJORITY_PAST, QUORUM, QUORUM_PAST, AVERAGED,
                  DEADLINE, AUTO),
        rules=(Rule("full: at least 97.0 %", (FULL,), lambda full: full.accuracy >= 0.970),
               _loses(SOLO, 0.015), _keeps(MAJORITY, 0.015), _is_better(MAJORITY, SOLO, 0.015),
               _is_better(SUM, SOLO, 0.005), _is_better(AVERAGED, SOLO, 0.010),
               _keeps(MAJORITY_PAST, 0.008), _keeps(QUORUM_PAST, 0.008), _is_fast(SOLO, 1.3),
               _is_fast(MAJORITY, 1.12), _is_fast(MAJORITY_PAST, 1.12), _is_fast(QUORUM_PAST, 1.12),
               _keeps(AUTO, 0.008), _is_no_worse(AUTO, MAJORITY_PAST), _is_no_worse(AUTO, QUORUM_PAST)),
        fast=(FULL, SOLO, AUTO)),
    "x2": Policies(
        about="Japanese vowels of different lengths",
        paper="Li et al., PPoPP 2020, Fig. 13: an LSTM on UCF101, whose videos differ in length; solo 1.46 and "
              "majority 1.26 times as fast, majority without loss",
        task="vowels", unit=5e-5, seeds=4,
        policies=(FULL, SOLO, MAJORITY, SUM, PAST, MAJORITY_SUM, MAJORITY_PAST, AUTO),
        rules=(_keeps(MAJORITY, 0.010), _loses(SOLO, 0.0), _keeps(MAJORITY_PAST, 0.008),
               _keeps(AUTO, 0.008), _is_fast(SOLO, 1.2), _is_fast(MAJORITY, 1.1)),
        fast=(FULL, MAJORITY_PAST), fast_share=4),
    "x3": Policies(
        about="digits, one random rank late",
        paper="Li et al., PPoPP 2020, Fig. 11: ResNet-50 on ImageNet, 64 processes of which 4 are late in each step; "
              "solo twice as fast, and as good where weights are averaged every 10 epochs",
        task="digits_one_late", unit=5e-5, seeds=3,
        policies=(FULL, SOLO, MAJORITY, SUM, PAST, MAJORITY_PAST, QUORUM_PAST, AVERAGED, AUTO),
        rules=(_keeps(AVERAGED, 0.015), _loses(SOLO, 0.020), _keeps(MAJORITY_PAST, 0.008), _keeps(AUTO, 0.008),
               _is_no_worse(AUTO, MAJORITY_PAST), _is_no_worse(AUTO, QUORUM_PAST),
               _is_fast(SOLO, 1.5), _is_fast(AVERAGED, 1.3)),
        fast=(FULL, AVERAGED)),
}
