"""DiLoCo while a rank is stopped by SIGSTOP, as by a scheduler or a debugger. Ranks are processes."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import above  # noqa: F401
import pytest
from test_failures import BEGIN, HERE
from waiting import EVENTS, compute_for, wait_until

RANKS = 4
GRACE = 0.2  # seconds
STEP = 0.005  # duration of a local step in seconds
LONG = pytest.mark.skipif("LSCHED_TEST_FULL" not in os.environ, reason="a soak: set LSCHED_TEST_FULL=1")

# Each rank trains until the event "end". The gradients are whole numbers, and the outer optimizer adds the merged
# changes, each multiplied by its number of offers. So the sum of these changes must be the sum of all gradients.
PROGRAM = """
import json
from libsched.torch import DiLoCo

class Adding(torch.optim.SGD):
    def step(self, closure=None):
        for i, part in enumerate(parts):
            if part.grad is not None:
                merged[i] += part.grad[0] * diloco.reports[i].offers
        super().step(closure)

def write(name, value):
    path = os.path.join(os.environ[waiting.EVENTS], name)
    with open(path + ".new", "w") as file:
        json.dump(value, file)
    os.rename(path + ".new", path)

parts = [torch.nn.Parameter(torch.zeros({count}, dtype=torch.float64)) for _ in range(2)]
inner, outer = torch.optim.SGD(parts, lr=1.0), Adding(parts, lr=1.0)
diloco = DiLoCo([[each] for each in parts], inner, outer, 4, quorum={ranks} - 1, grace={grace}, timeout=60)
merged, given, calls = torch.zeros(2, dtype=torch.float64), torch.zeros(1, dtype=torch.float64), []
write(f"process {{rank}}", os.getpid())
while not events.is_set("end"):
    waiting.compute_for({step})
    amount = 1 + (diloco.steps + rank) % 5
    for each in parts:
        each.grad = torch.full_like(each, float(amount))
    begin = time.monotonic()
    inner.step()
    calls.append((begin, time.monotonic()))
    given += amount
    write(f"state {{rank}}", dict(rounds=min(diloco.fragment_rounds), steps=diloco.steps))
diloco.flush()
mine = torch.cat([merged.round(), torch.cat(parts).detach(), given])
all_ranks = torch.empty({ranks} * mine.numel(), dtype=torch.float64)
with diloco.world.allgather(mine, all_ranks) as gather:
    gather.run(30)
rows = all_ranks.view({ranks}, -1)
write(f"end {{rank}}", dict(calls=calls, merged=rows[0, :2].tolist(), given=rows[:, -1].sum().item(),
                            are_alike=bool((rows[:, :-1] == rows[0, :-1]).all())))
diloco.close()
dist.destroy_process_group()
"""


class Stopped:
    """Stops a process, and continues the process at the end of the block. If this test dies, a guard does that."""

    def __init__(self, process):
        self._process = process

    def __enter__(self):
        self._guard = subprocess.Popen(["sh", "-c", "read nothing; kill -CONT $0", str(self._process)],
                                       stdin=subprocess.PIPE)
        os.kill(self._process, signal.SIGSTOP)
        self.begin = time.monotonic()
        return self

    def __exit__(self, *_):
        self.end = time.monotonic()
        self._guard.communicate()

    def share_of(self, begin, end):
        """Returns the part of a time that this rank was stopped, in seconds."""
        return max(0.0, min(end, self.end) - max(begin, self.begin))


class Training:
    """Ranks that train until end() is called."""

    def __init__(self, directory, count):
        self._directory = directory
        program = BEGIN.format(above=os.path.dirname(HERE), limit=60, backend="lsched") + PROGRAM.format(
            ranks=RANKS, grace=GRACE, step=STEP, count=count)
        command = [sys.executable, "-m", "libsched", "run", "-n", str(RANKS), "--timeout", "300"]
        self._run = subprocess.Popen([*command, sys.executable, "-W", "ignore", "-c", program],
                                     env={**os.environ, EVENTS: directory})
        wait_until(lambda: all(self._has(f"process {rank}") for rank in range(RANKS)), 120)
        self.processes = [self.read(f"process {rank}") for rank in range(RANKS)]

    def _has(self, name):
        assert self._run.poll() is None, f"the ranks have ended with status {self._run.poll()}"
        return os.path.exists(os.path.join(self._directory, name))

    def read(self, name):
        with open(os.path.join(self._directory, name)) as file:
            return json.load(file)

    def _state(self, rank, name):
        return self.read(f"state {rank}")[name] if self._has(f"state {rank}") else 0

    def wait_for(self, name, more, without=None):
        """Blocks until each rank has made `more` further "steps", or has applied `more` further "rounds" of all
        fragments. The rank `without` is left out."""
        goals = {rank: self._state(rank, name) + more for rank in range(RANKS) if rank != without}
        wait_until(lambda: all(self._state(rank, name) >= goal for rank, goal in goals.items()))

    def end(self):
        """Ends the loop of all ranks, and returns what the ranks have reported."""
        open(os.path.join(self._directory, "end"), "w").close()
        assert self._run.wait(60) == 0
        return [self.read(f"end {rank}") for rank in range(RANKS)]

    def abandon(self):
        if self._run.poll() is None:
            self._run.terminate()
            self._run.wait(30)


@contextlib.contextmanager
def training(count=3):
    with tempfile.TemporaryDirectory() as directory:
        ranks = Training(directory, count)
        try:
            yield ranks
        finally:
            ranks.abandon()


def expect_exact(reports):
    """Checks that each gradient was merged once, and that the weights of all ranks have the same bits."""
    for each in reports:
        assert each["merged"] == [each["given"]] * 2 and each["are_alike"], {**each, "calls": None}


def waits(calls, stopped):
    """Returns the durations of the calls of inner.step() during a stop, without calls that only compute."""
    shares = [stopped.share_of(*each) for each in calls if each[1] - each[0] > GRACE / 4]
    return [each for each in shares if each > 0]


def check_stops(seconds):
    """Stops rank 3, and later rank 0, which counts the calls."""
    with training() as ranks:
        stops = []
        for rank in (3, 0):
            ranks.wait_for("rounds", 5)
            with Stopped(ranks.processes[rank]) as stopped:
                compute_for(seconds)
                ranks.wait_for("steps", 20, without=rank)
            stops.append((rank, stopped))
        ranks.wait_for("rounds", 5)
        reports = ranks.end()
    for rank, stopped in stops:
        for other in set(range(RANKS)) - {rank}:
            calls, duration = reports[other]["calls"], stopped.end - stopped.begin
            lost = waits(calls, stopped)
            steps = sum(stopped.begin < end < stopped.end for _, end in calls)
            print(f"rank {rank} stopped for {duration:.2f} s: rank {other} waited for {lost} s, made {steps} steps")
            assert sum(lost) <= 1.9 * GRACE and sum(each > GRACE / 2 for each in lost) <= 1
    expect_exact(reports)


def test_a_stopped_rank_costs_the_others_one_grace():
    check_stops(0.7)


@LONG
def test_a_rank_that_is_stopped_for_long_costs_the_others_one_grace():
    check_stops(10)


@LONG
def test_no_change_is_lost_at_random_stops():
    """Some stops hit a rank while it copies a change, because copies of this size take milliseconds."""
    draws = random.Random(5)
    with training(count=300_000) as ranks:
        ranks.wait_for("rounds", 2)
        for _ in range(20):
            compute_for(draws.uniform(0, 0.3))
            with Stopped(ranks.processes[draws.randrange(RANKS)]):
                compute_for(draws.choice([0.002, 0.02, 1.5 * GRACE]))
        ranks.wait_for("rounds", 2)
        expect_exact(ranks.end())
