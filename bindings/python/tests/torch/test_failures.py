"""Errors that ranks of torch.distributed get if one of them dies, comes late or starts again. Ranks are processes."""

import os
import subprocess
import sys
import tempfile
import textwrap

import above  # noqa: F401
from waiting import EVENTS

BEGIN = """
import os, sys, time, torch, torch.distributed as dist, libsched.torch
from datetime import timedelta
sys.path.append("{above}")
import waiting
events = waiting.SharedEvents()
dist.init_process_group("{backend}", timeout=timedelta(seconds={limit}))
rank = dist.get_rank()
def say(text):
    os.write(1, (text + "\\n").encode())
"""


HERE = os.path.dirname(os.path.abspath(__file__))


def run(ranks, body, limit=30, backend="lsched", end=100):
    """Runs a program in ranks that share `events`, and returns their output. Blocks for at most `end` seconds."""
    program = BEGIN.format(above=os.path.dirname(HERE), limit=limit, backend=backend) + textwrap.dedent(body)
    python = [sys.executable, "-W", "ignore", "-c", program]
    command = [sys.executable, "-m", "libsched", "run", "-n", str(ranks), *python]
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=end, text=True,
                              check=False, env={**os.environ, EVENTS: directory})
    print(done.stdout)
    return done.stdout


def test_survivors_of_a_training_step_hear_who_has_died():
    said = run(3, """
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    try:
        for step in range(1000):
            if rank == 1 and step == 5:
                os._exit(0)
            model(torch.ones(2, 8)).sum().backward()
    except RuntimeError as error:
        say(f"heard: {error}")
        os._exit(1)
    """)
    assert said.count("heard: ") == 2 and said.count("rank 1 died") == 2, said
    assert "Segmentation" not in said and "signal 11" not in said


def test_a_late_rank_writes_to_nobodys_memory():
    said = run(2, """
    if rank == 0:
        late = torch.ones(500_000)
        try:
            dist.all_reduce(late)
        except RuntimeError as error:
            say("in vain: rank " + str(error.__cause__.rank))
        del late
        torch.zeros(3_000_000)
        events.set("in vain")
    else:
        events.wait("in vain")
        try:
            dist.all_reduce(torch.ones(500_000))
        except RuntimeError as error:
            say("given up by rank " + str(error.__cause__.rank))
    events.meet(rank, 2)
    os._exit(0)
    """, limit=1)
    assert "in vain: rank 1" in said and "given up by rank 0" in said, said


def test_groups_are_opened_again_with_the_same_store():
    said = run(2, """
    store = dist.distributed_c10d._get_default_store()
    for _ in range(5):
        dist.barrier()
        dist.destroy_process_group()
        dist.init_process_group("lsched", store=store, rank=rank, world_size=2)
        mine = torch.ones(1)
        dist.all_reduce(mine)
        assert mine == 2
    say("again and again")
    os._exit(0)
    """)
    assert said.count("again and again") == 2, said


def test_coalesced_work_fails_as_a_whole():
    said = run(2, """
    for _ in range(4):  # as many schedules as a kind of call has: later calls create none
        dist.group.WORLD.allreduce_coalesced([torch.ones(3), torch.ones(4)]).wait()
    if rank == 1:
        events.wait("begun")
        os._exit(0)
    work = dist.group.WORLD.allreduce_coalesced([torch.ones(3), torch.ones(4)])
    events.set("begun")
    waiting.wait_until(work.is_completed)
    try:
        work.wait()
    except RuntimeError as error:
        say(f"failed {not work.is_success()}")
    os._exit(0)
    """)
    assert "failed True" in said, said


def test_survivors_of_a_death_go_on():
    said = run(3, """
    import libsched
    model = torch.nn.Linear(8, 1)
    inner = torch.optim.SGD(model.parameters(), lr=0.01)
    opt = libsched.torch.PartialOptimizer(inner, model.named_parameters(), lag="accumulate")
    for i in range(200):
        if rank == 1 and i == 20:
            os._exit(0)
        opt.zero_grad()
        model(torch.ones(2, 8) * i).square().mean().backward()
        try:
            opt.step()
        except libsched.PeerLost:
            world = opt.shrink()
            opt.average_parameters()
    opt.average_parameters()
    say(f"{world.size} are left: {model.weight.double().sum().item()!r}")
    os._exit(0)
    """)
    lines = [line for line in said.splitlines() if "are left" in line]
    assert len(lines) == 2 and lines[0] == lines[1] and lines[0].startswith("2"), said
