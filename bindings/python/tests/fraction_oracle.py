"""An oracle for weights and ages: recomputes every result in fractions, while ranks withdraw offers and die.

Each rank is a process, and writes its offers and results to a log. After the run the oracle finds the offers that each
round contains from the counted weights, computes the weighted mean in fractions, and compares all bits. Element r of an
offer of rank r is 1, and the last elements are random integers, so that sums are exact before the division. With ages
whose factors are powers of two, the sums are exact, too. Other ages are compared with a tolerance.

    python fraction_oracle.py 100000        # number of rounds, in trials of 5000 rounds
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import struct
import sys
import tempfile
from fractions import Fraction
from typing import Callable, NamedTuple

LIMIT = 30.0
DATA = 3


class Trial(NamedTuple):
    """All choices of a trial follow from these numbers. Some of the ranks above 0 die."""

    seed: int
    ranks: int
    rounds: int
    activation: str
    deaths: int = 0
    age: str | None = None

    def age_option(self):
        return [0.5**a for a in range(9)] if self.age == "halves" else self.age

    def factor(self, rounds: int) -> Fraction:
        """Returns the factor of an age."""
        if self.age is None or rounds <= 0:
            return Fraction(1)
        return Fraction(1, 1 + rounds) if self.age == "inverse" else Fraction(1, 2**min(rounds, 8))

    def deaths_by_rank(self) -> dict[int, int]:
        """Returns the round after which each dying rank ends."""
        draw = random.Random(self.seed)
        return {rank: draw.randrange(1, self.rounds * 3 // 4)
                for rank in draw.sample(range(1, self.ranks), self.deaths)}


# --- a rank ------------------------------------------------------------------------------------------------------

class Rank:
    """The training loop of one process. Calls that fail with PeerLost are repeated in the world of the survivors."""

    def __init__(self, world, trial: Trial, directory: str) -> None:
        import numpy

        self.world, self.trial, self.me = world, trial, world.rank
        self.draw = random.Random(trial.seed * 1000 + self.me)
        self.log = open(os.path.join(directory, str(self.me)), "wb", buffering=0)
        self.vector = numpy.zeros(trial.ranks + DATA)
        self.result = numpy.zeros(trial.ranks + DATA)
        self.sums = world.partial(trial.ranks + DATA, "f8", activation=trial.activation, lag="history", history=60,
                                  divisor="offers", seed=trial.seed, age=trial.age_option())

    def run(self) -> None:
        dies_after = self.trial.deaths_by_rank().get(self.me)
        while self.sums.round < self.trial.rounds:
            if self.draw.random() < 0.02 * (self.me + 1):
                from waiting import compute_for
                compute_for(0.0005)
            ticket = self.until_done(self.offer)
            if dies_after is not None and self.sums.round >= dies_after:
                os.kill(os.getpid(), signal.SIGKILL)
            if self.draw.random() < 0.02:
                self.write("w", self.until_done(self.sums.withdraw))
            self.collect(ticket)
        report = self.until_done(lambda: self.sums.flush(self.result, LIMIT))
        self.note(report)
        self.collect(ticket)
        self.sums.close(LIMIT)

    def offer(self):
        state = self.draw.getstate()
        kind = self.draw.randrange(10)
        weight = (None, 0, 1, 1)[kind] if kind < 4 else self.draw.randrange(1, 1 << self.draw.randrange(1, 12))
        self.vector[:] = 0
        self.vector[self.me] = 1
        self.vector[-DATA:] = [self.draw.randrange(-1000, 1000) for _ in range(DATA)]
        try:
            self.sums.skip(self.trial.rounds - 1)
            ticket = self.sums.offer(None if weight is None else self.vector, weight or 0)
        except Exception:
            self.draw.setstate(state)  # the offer was not made, and the next attempt makes the same offer
            raise
        if weight:
            self.write("o", ticket.round, weight, *map(int, self.vector[-DATA:]))
        return ticket

    def collect(self, ticket) -> None:
        while True:
            report = self.until_done(lambda: self.sums.collect(ticket, self.result, LIMIT))
            self.note(report)
            if report.to >= report.round:
                return

    def note(self, report) -> None:
        if report.to > report.from_:
            bits = self.result.tobytes().hex() if report.has_result else "-"
            self.write("r", report.from_, report.to, report.mine, report.offers, bits, report.age_factor)

    def write(self, *words) -> None:
        self.log.write((" ".join(map(str, words)) + "\n").encode())

    def until_done(self, call: Callable):
        import libsched

        while True:
            try:
                return call()
            except libsched.PeerLost:
                pass
            try:
                survivors = self.world.shrink(LIMIT)
                self.sums.carry(survivors)
                self.world = survivors
            except libsched.PeerLost:
                pass  # another rank has died


# --- the oracle --------------------------------------------------------------------------------------------------

class Offer(NamedTuple):
    call: int
    weight: int
    data: tuple[int, ...]


class Record(NamedTuple):
    """The report and the bits of the result of one round on one rank."""

    mine: int
    offers: int
    bits: str
    age_factor: float


class Log:
    """The log of one rank. `records` has only rounds that the rank has collected one by one."""

    def __init__(self, path: str) -> None:
        self.offers: list[Offer] = []
        self.records: dict[int, Record] = {}
        self.last = self.withdrawn = 0
        with open(path) as lines:
            for kind, *words in map(str.split, lines):
                if kind == "o":
                    call, weight, *data = map(int, words)
                    self.offers.append(Offer(call, weight, tuple(data)))
                elif kind == "w":
                    self._withdraw(int(words[0]))
                else:
                    begin, self.last = int(words[0]), int(words[1])
                    if begin + 1 == self.last:
                        self.records[self.last] = Record(int(words[2]), int(words[3]), words[4],
                                                         float(words[5]))
        self.weights = sum(each.weight for each in self.offers)

    def _withdraw(self, weight: int) -> None:
        """The pending offers are the last offers."""
        self.withdrawn += weight
        while weight > 0:
            weight -= self.offers.pop().weight
        assert weight == 0, "withdraw() has returned a number that is not the weight of the last offers"


def factors_of(trial: Trial, offers: list[Offer], round_: int) -> tuple[list[Fraction], Fraction]:
    """Returns the factors of the offers of one rank in a round, and the factor at the capture (lsched_age)."""
    factors: list[Fraction] = []
    newest = 0
    for each in offers:
        if factors:
            factors = [factor * trial.factor(each.call - newest) for factor in factors]
        factors.append(Fraction(1))
        newest = max(newest, each.call)
    last = trial.factor(round_ - newest) if offers else Fraction(1)
    return [factor * last for factor in factors], last


def exact_result(trial: Trial, parts: dict[int, list[Offer]], round_: int) -> list[Fraction]:
    """Returns the weighted mean of the offers. `parts` has the offers of each rank in the round."""
    sums = [Fraction(0)] * (trial.ranks + DATA)
    for rank, offers in parts.items():
        for each, factor in zip(offers, factors_of(trial, offers, round_)[0]):
            sums[rank] += factor * each.weight
            for i, value in enumerate(each.data):
                sums[trial.ranks + i] += factor * each.weight * value
    weights = sum(each.weight for offers in parts.values() for each in offers)
    return [each / weights for each in sums]


def fits(trial: Trial, parts: dict[int, list[Offer]], round_: int, bits: str) -> bool:
    got = struct.unpack(f"{trial.ranks + DATA}d", bytes.fromhex(bits))
    exact = exact_result(trial, parts, round_)
    if trial.age == "inverse":
        return all(abs(each - float(right)) <= 1e-12 * 1000 for each, right in zip(got, exact))
    return all(each == float(right) for each, right in zip(got, exact))


def first_offers(offers: list[Offer], begin: int, weight: int) -> int | None:
    """Returns the end of the offers from `begin` that have this weight together, or None."""
    end = begin
    while weight > 0 and end < len(offers):
        weight -= offers[end].weight
        end += 1
    return end if weight == 0 else None


def check(trial: Trial, directory: str) -> tuple[int, int]:
    """Checks the logs of all ranks. Returns the number of rounds that the survivors have repeated, and the number of
    contributions that were scaled because of their age."""
    logs = [Log(os.path.join(directory, str(rank))) for rank in range(trial.ranks)]
    dead = trial.deaths_by_rank()
    alive = [rank for rank in range(trial.ranks) if rank not in dead]
    places, repeated, late = [0] * trial.ranks, 0, 0
    for round_ in range(1, max(log.last for log in logs) + 1):
        records = {rank: logs[rank].records[round_] for rank in [*alive, *dead] if round_ in logs[rank].records}
        assert any(rank in alive for rank in records), f"no survivor has collected round {round_} by itself"
        agreed = next(iter(records.values()))
        for rank, each in list(records.items()):
            if (each.offers, each.bits) == (agreed.offers, agreed.bits):
                continue
            assert rank in dead and logs[rank].last == round_, f"round {round_} has other bits on rank {rank}"
            repeated += 1
            del records[rank]
        rest = agreed.offers - sum(each.mine for each in records.values())
        ends = {}  # the possible ends of the offers of each rank in this round
        for rank, log in enumerate(logs):
            if rank in records:
                ends[rank] = [first_offers(log.offers, places[rank], records[rank].mine)]
            else:
                sums = itertools.accumulate((each.weight for each in log.offers[places[rank]:]), initial=0)
                ends[rank] = [places[rank] + i for i, each in enumerate(itertools.takewhile(lambda s: s <= rest, sums))]
        assert all(None not in each for each in ends.values()), f"round {round_} counts weights that were not offered"
        for choice in itertools.product(*(ends[rank] for rank in range(trial.ranks))):
            parts = {rank: logs[rank].offers[places[rank]:end] for rank, end in enumerate(choice)}
            weights = sum(each.weight for offers in parts.values() for each in offers)
            if weights == agreed.offers and (weights == 0) == (agreed.bits == "-") and (
                    weights == 0 or fits(trial, parts, round_, agreed.bits)):
                for rank, each in records.items():
                    factor = factors_of(trial, parts[rank], round_)[1]
                    assert each.age_factor == float(factor), f"round {round_}: {each} on rank {rank}, not {factor}"
                    late += factor != 1
                places = list(choice)
                break
        else:
            raise AssertionError(f"round {round_} is not the weighted mean of the next offers: {agreed}, {places}")
    for rank in alive:
        assert places[rank] == len(logs[rank].offers), f"offers of rank {rank} were not delivered"
    return repeated, late


def play(trial: Trial) -> tuple[int, int]:
    """Runs a trial in processes of `lsched run`, and checks the logs."""
    from conftest import launch

    with tempfile.TemporaryDirectory() as directory:
        done = launch(trial.ranks, f"""
        import fraction_oracle
        trial = fraction_oracle.Trial(*{tuple(trial)!r})
        fraction_oracle.Rank(libsched.init(), trial, {directory!r}).run()
        print("through", flush=True)
        os._exit(0)
        """, timeout=600)
        assert done.output.count("through") == trial.ranks - trial.deaths, done.output
        return check(trial, directory)


ACTIVATIONS = ("quorum(2)", "majority", "solo", "quorum(3)+every(8)", "full")


def trial_of(seed: int, rounds: int) -> Trial:
    age = (None, "halves", "inverse")[seed // 2 % 3]
    # After a death, the offers of a failed round join the pending offers at once. So only exponential ages are exact.
    deaths = 0 if age == "inverse" else seed % 3
    return Trial(seed, (5, 3, 4, 6)[seed % 4], rounds, ACTIVATIONS[seed % len(ACTIVATIONS)], deaths, age)


def main() -> None:
    rounds, repeated, late, dead = int(sys.argv[1]), 0, 0, 0
    trials = [trial_of(seed, min(5000, rounds)) for seed in range(-(-rounds // 5000))]
    for trial in trials:
        found = play(trial)
        repeated, late = repeated + found[0], late + found[1]
        dead += trial.deaths
        print(trial, "passed", flush=True)
    print(f"{sum(trial.rounds for trial in trials)} rounds, {dead} deaths, {repeated} repeated rounds, {late} scaled "
          "contributions: all results right")


if __name__ == "__main__":
    main()
