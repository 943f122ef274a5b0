"""Collectives of torch whose last rank arrives at the end of a slice, which is a part of the other ranks' wait. Ranks
are processes.

With LSCHED_TEST_FULL=1 the tests run 100,000 rounds, and create 1,000 groups.
"""

import os

import pytest

from test_failures import run

FULL = "LSCHED_TEST_FULL" in os.environ

LATE = """
import mmap, random
from libsched import _core
slice_of_waits = 0.002
_core.set_slice(slice_of_waits)
size = dist.get_world_size()
draw = random.Random({seed})
with open("{path}", "r+b") as file:
    shown = memoryview(mmap.mmap(file.fileno(), 16)).cast("d")  # the round, and when the first rank's wait began

def arrive_late(number):
    waiting.wait_until(lambda: shown[0] >= number)
    waiting.arrive_at(shown[1] + slice_of_waits + draw.uniform(-3e-4, 3e-4))

for number in range(1, {rounds} + 1):
    dist.barrier()
    x = torch.full((3,), float(number))
    if rank == 0:
        shown[1] = time.monotonic()
        shown[0] = number
    if rank == size - 1:
        arrive_late(number)
    if number % 2 == 0:
        dist.all_reduce(x)
    else:
        dist.all_reduce(x, async_op=True).wait()
    assert x.tolist() == [size * number] * 3, (number, x)
say("all rounds are right")
dist.destroy_process_group()
"""


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_collective_waits_beyond_the_end_of_a_slice(ranks, tmp_path):
    rounds, repetitions = (5000, 10) if FULL else (60, 1)
    for seed in range(repetitions):
        path = tmp_path / f"shown{seed}"
        path.write_bytes(bytes(16))
        said = run(ranks, LATE.format(path=path, rounds=rounds, seed=seed), end=900)
        assert said.count("all rounds are right") == ranks


GROUPS = """
size = dist.get_world_size()
for number in range(1, {groups} + 1):
    group = dist.new_group(list(range(size)))
    for round in range(1, 6):
        for _ in range(2):
            x = torch.full((7,), float(number + rank))
            dist.all_reduce(x, group=group)
            assert x[3] == size * number + size * (size - 1) / 2, (number, round, x)
        for root in (0, size - 1):
            x = torch.full((5,), float(number * round + rank))
            dist.broadcast(x, root, group=group)
            assert x[2] == number * round + root, (number, round, x)
    dist.destroy_process_group(group)
say("all groups are right")
dist.destroy_process_group()
"""


@pytest.mark.parametrize("ranks", [2, 3])
def test_each_of_many_groups_adds_and_broadcasts(ranks):
    said = run(ranks, GROUPS.format(groups=1000 if FULL else 10), end=1800)
    assert said.count("all groups are right") == ranks
