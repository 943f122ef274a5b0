"""Tests with a peer that arrives at the end of a timeout, or of a slice. A wait in Python is a sequence of short waits,
the slices. Between two slices, Python handles signals."""

import os
import random
import threading
import time

import numpy as np
import pytest

import libsched
from conftest import LIMIT, as_threads
from libsched import _core
from waiting import arrive_at, wait_until

FULL = "LSCHED_TEST_FULL" in os.environ  # the full test runs 120,000 rounds that end near a slice or a short timeout
SHORT_SLICE, SLICE = 0.002, 0.1  # seconds; SLICE is the default of the package


@pytest.fixture(params=[SHORT_SLICE, SLICE], ids=["short slices", "slices"])
def slice_of_waits(request):
    _core.set_slice(request.param)
    yield request.param
    _core.set_slice(SLICE)


class Aim:
    """Delays the last rank, so that it acts at most 300 us before or after the end of the first rank's wait."""

    def __init__(self, world, seconds, seed):
        self._seconds = seconds
        self._random = random.Random(seed)
        self._is_first, self.is_late = world.rank == 0, world.rank == world.size - 1
        self._meeting = world.barrier()
        self._begin = Aim.begins

    begins: list = []  # times at which the first rank began its waits

    def wait_begins(self):
        if self._is_first:
            Aim.begins.append(time.monotonic())

    def delay(self, number):
        if not self.is_late:
            return
        wait_until(lambda: len(Aim.begins) > number)
        arrive_at(Aim.begins[number] + self._seconds + self._random.uniform(-3e-4, 3e-4))

    def meet(self):
        self._meeting.run(LIMIT)

    def close(self):
        self._meeting.close()


def play(ranks, rounds, seconds, one_round):
    """Calls one_round(world, aim, number) for `rounds` rounds. A full test repeats this in several worlds."""
    for seed in range(5 if FULL else 1):
        Aim.begins = []

        def body(world, seed=seed):
            aim = Aim(world, seconds, seed)
            for number in range(rounds):
                aim.meet()
                one_round(world, aim, number)
            aim.close()

        as_threads(ranks, body)


def number_of_rounds(seconds):
    if FULL:
        return 4_000 if seconds == SHORT_SLICE else 100
    return 100 if seconds == SHORT_SLICE else 8


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_run_goes_on_in_its_next_slice(slice_of_waits, ranks):
    made = threading.local()

    def one_round(world, aim, number):
        if number == 0:
            made.array = np.zeros(3)
            made.step = world.allreduce(made.array)
        made.array[:] = number
        aim.wait_begins()
        aim.delay(number)
        made.step.run(LIMIT)
        assert made.array.tolist() == [world.size * number] * 3
        if number == number_of_rounds(slice_of_waits) - 1:
            made.step.close()

    play(ranks, number_of_rounds(slice_of_waits), slice_of_waits, one_round)


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_timeout_names_the_awaited_round(ranks):
    made = threading.local()
    rounds = number_of_rounds(SHORT_SLICE)

    def one_round(world, aim, number):
        if number == 0:
            made.array = np.zeros(3)
            made.step = world.allreduce(made.array)
        made.array[:] = number
        aim.delay(number)
        ticket = made.step.start()
        aim.wait_begins()
        try:
            ticket.wait(LIMIT if aim.is_late else SHORT_SLICE)
        except libsched.Timeout as error:
            assert error.round == ticket.round == number + 1 and f"round {number + 1}:" in error.text, error
            ticket.wait(LIMIT)
        assert made.array.tolist() == [world.size * number] * 3
        if number == rounds - 1:
            made.step.close()

    play(ranks, rounds, SHORT_SLICE, one_round)


def test_a_partial_schedule_collects_in_its_next_slice(slice_of_waits):
    made = threading.local()
    rounds = number_of_rounds(slice_of_waits)

    def one_round(world, aim, number):
        if number == 0:
            made.sums = world.partial(1, "f8")
            made.out = np.zeros(1)
        aim.delay(number)
        ticket = made.sums.offer(np.full(1, float(number)))
        aim.wait_begins()
        report = made.sums.collect(ticket, made.out, LIMIT)
        assert (report.to, made.out[0]) == (number + 1, world.size * number)
        if number == rounds - 1:
            made.sums.close(LIMIT)

    play(3, rounds, slice_of_waits, one_round)


def test_a_create_goes_on_in_its_next_slice(slice_of_waits):
    def one_round(world, aim, number):
        aim.wait_begins()
        aim.delay(number)
        world.barrier().close()

    play(3, number_of_rounds(slice_of_waits), slice_of_waits, one_round)
