"""A call that one rank refuses is refused on all ranks. Ranks are processes."""

import datetime
import os
import subprocess
import sys

import pytest
from test_failures import run

from libsched.torch import _work

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("ranks", [3, 5])
def test_all_ranks_hear_of_a_refusal_and_the_next_call_is_right(ranks):
    command = [sys.executable, "-m", "libsched", "run", "-n", str(ranks), sys.executable, "-W", "ignore",
               os.path.join(HERE, "refusals_program.py")]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=250, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout


def test_a_group_does_not_go_on_silently_after_a_rank_has_missed_a_refusal():
    """A gather of known sizes succeeds on ranks that are not the root, although the root has refused its list."""
    said = run(3, """
    def gather(room):
        dist.gather(torch.ones(2), [torch.zeros(room) for _ in range(3)] if rank == 0 else None)
    for _ in range(5):
        gather(2)
    try:
        gather(3 if rank == 0 else 2)
    except RuntimeError as error:
        say(f"gather: {error}")
    for step in range(4):  # ranks that are one call apart add numbers of different steps
        mine = torch.full((2,), 10.0 ** step)
        try:
            dist.all_reduce(mine)
            say(f"step {step}: " + ("right" if mine[0] == 3 * 10.0 ** step else "wrong"))
        except RuntimeError as error:
            say(f"step {step}: {error}")
    os._exit(0)
    """)
    assert said.count("gather: a tensor of gather_list differs in size") == 1, said
    assert "wrong" not in said, said
    assert said.count("step 3: ") == 3, said


@pytest.mark.parametrize("is_late", [False, True])
def test_a_round_that_fails_on_some_ranks_ends_the_group_on_all_ranks(is_late):
    """Rank 1 passes other block lengths than the other ranks.

    No rank may mistake this failure for the failure of a create. A late rank finds that the schedule failed before the
    rank began its round.
    """
    said = run(3, """
    for _ in range(5):
        dist.all_to_all_single(torch.zeros(3), torch.ones(3))
        dist.all_reduce(torch.ones(2))
    splits = [3, 0, 0] if rank == 1 else [1, 1, 1]
    if rank == 2 and %d:
        events.wait("failed")
    try:
        dist.all_to_all_single(torch.zeros(3), torch.ones(3), splits, splits)
    except RuntimeError as error:
        say(f"exchange: {error}")
        events.set("failed")
    begun = time.monotonic()
    for _ in range(3):
        try:
            dist.all_reduce(torch.ones(2))
            say("went on")
        except RuntimeError as error:
            say(f"next: {error}")
    say("in time" if time.monotonic() - begun < 10 else "late")
    events.meet(rank, 3)  # other ranks would hear of the end of this process
    os._exit(0)
    """ % is_late)
    assert said.count("exchange: ") >= 1, said
    answers = [line for line in said.splitlines() if line.startswith("next: ")]
    assert len(answers) == 9 and all("given up" in each for each in answers), said
    assert said.count("in time") == 3, said


@pytest.mark.parametrize("dtype, sent, asynchronous", [("float32", 1, False), ("float32", 0, True), ("bool", 1, False)])
def test_a_block_that_is_shorter_than_expected_is_an_error(asynchronous, dtype, sent):
    """Without an error, the tensor of rank 2 would keep some of its old elements. The other ranks raise at their next
    call."""
    said = run(3, """
    dtype, sent, asynchronous = torch.%s, %d, %d
    for _ in range(5):
        dist.all_to_all_single(torch.zeros(6, dtype=dtype), torch.ones(6, dtype=dtype))
        dist.all_reduce(torch.ones(2))
    splits = [2, 2, sent] if rank == 0 else [2, 2, 2]
    try:
        work = dist.all_to_all_single(torch.zeros(6, dtype=dtype), torch.ones(sum(splits), dtype=dtype), [2, 2, 2],
                                      splits, async_op=bool(asynchronous))
        if asynchronous:
            work.wait()
        say("exchange: right")
    except RuntimeError as error:
        say(f"exchange: {error}")
    for _ in range(3):
        try:
            dist.all_reduce(torch.ones(2))
            say("went on")
        except RuntimeError as error:
            say(f"next: {error}")
    events.meet(rank, 3)  # other ranks would hear of the end of this process
    os._exit(0)
    """ % (dtype, sent, asynchronous))
    assert said.count("exchange: right") == 2, said
    assert said.count(f"exchange: rank 0 has sent a block of {sent} elements to this rank, which expects 2 "
                      "[LSCHED_ERR_BOUNDS]") == 1, said
    answers = [line for line in said.splitlines() if "next: " in line]
    assert len(answers) == 9 and all("given up" in each for each in answers), said


def test_a_message_that_is_shorter_than_its_tensor_is_an_error():
    said = run(2, """
    for sent in (3, 2, 0, 3):
        if rank == 0:
            dist.send(torch.ones(sent), 1)
            continue
        into = torch.zeros(3)
        try:
            work = dist.irecv(into, 0) if sent == 2 else None
            from_rank = work.wait() if work else dist.recv(into)
            say(f"{from_rank}: {into.tolist()}")
        except RuntimeError as error:
            say(f"{sent}: {error}")
    dist.barrier()
    """)
    assert said.count("0: [1.0, 1.0, 1.0]") == 2, said
    for sent in (2, 0):
        assert (f"{sent}: a message from rank 0 with tag 0 has {4 * sent} bytes, but the tensor for it has 12 "
                "[LSCHED_ERR_BOUNDS]") in said, said


def test_a_device_for_which_another_backend_is_named():
    said = run(2, """
    dist.all_to_all_single(torch.empty(2), torch.ones(2))
    group = dist.new_group(backend="cpu:gloo,cuda:lsched")
    try:
        dist.all_reduce(torch.ones(2), group=group)
    except RuntimeError as error:
        say(f"refused {error}")
    os._exit(0)
    """, backend="cpu:lsched,cuda:gloo")
    assert said.count("refused the group has the backend gloo for cpu beside lsched") == 2, said


def test_conjugated_and_negated_tensors_are_resolved():
    said = run(2, """
    mine = torch.full((4,), 1 + 2j).conj()
    dist.all_reduce(mine)
    assert torch.equal(mine, torch.full((4,), 2 - 4j)), mine
    for _ in range(2):  # the second one has a schedule
        negative = torch._neg_view(torch.ones(4))
        dist.all_reduce(negative)
        assert torch.equal(negative, torch.full((4,), -2.0)), negative
        dist.all_reduce(torch.ones(4))
    given = [torch.zeros(4, dtype=torch.complex64) for _ in range(2)]
    dist.all_gather(given, torch.full((4,), 1j).conj())
    assert all(torch.equal(each, torch.full((4,), -1j)) for each in given), given
    say("resolved")
    os._exit(0)
    """)
    assert said.count("resolved") == 2, said


def test_timeouts_of_many_years_saturate():
    assert _work.saturated(datetime.timedelta(days=10**6)) == _work.LONGEST
    assert _work.saturated(datetime.timedelta(days=-10**6)) == _work.LONGEST  # the timeout has overflowed
    assert _work.seconds(datetime.timedelta(milliseconds=-1), 5.0) == 5.0  # no timeout was given
    said = run(2, """
    group = dist.new_group(timeout=timedelta(days=10**8))
    mine = torch.ones(2)
    dist.all_reduce(mine, group=group)
    work = dist.all_reduce(mine, async_op=True)
    work.wait(timedelta.max)
    say(f"sum {mine.tolist()}")
    os._exit(0)
    """)
    assert said.count("sum [4.0, 4.0]") == 2, said
