"""Groups that a process creates after a timeout, and groups that only their members create. Ranks are processes."""

import pytest

from test_failures import run

LATE = """
import signal
files = dist.FileStore("{path}/late", 3)
pids = [None] * 3
dist.all_gather_object(pids, os.getpid())
x = torch.ones(3)
kept = []

def later(work):
    kept.append((work, work.get_future()))  # until the process ends
    work.wait()

def to_a_stopped_rank():
    os.kill(pids[1], signal.SIGSTOP)
    try:
        dist.isend(torch.ones(500_000), 1).wait()
    finally:
        os.kill(pids[1], signal.SIGCONT)

calls = [
    ("recv", lambda: dist.recv(x, 1)),
    ("irecv", lambda: later(dist.irecv(x, 1))),
    ("isend", to_a_stopped_rank),
    ("barrier", dist.barrier),
    ("alltoall", lambda: dist.all_to_all_single(torch.empty(3), x)),
    ("first async", lambda: later(dist.all_reduce(torch.ones(5), async_op=True))),
]
for name, call in calls:
    dist.barrier()
    dist.all_to_all_single(torch.empty(3), torch.ones(3))
    if rank == 0:
        try:
            call()
            say("went well: " + name)
        except RuntimeError as error:
            say("late: " + name)
        files.set(name, "late")
    else:
        files.wait([name], timedelta(seconds=30))
    dist.destroy_process_group()
    if name == calls[-1][0]:
        dist.init_process_group("lsched")
    else:
        store = dist.FileStore("{path}/" + name, 3)
        dist.init_process_group("lsched", store=store, rank=rank, world_size=3, timeout=timedelta(seconds=1))
    dist.all_reduce(x.fill_(1))
    assert x[0] == 3
    if rank != 1:
        dist.recv(x, 1)
        assert x[0] == 7
    else:
        dist.send(x.fill_(7), 0)
        dist.send(x, 2)
    say("a new group: " + name)
dist.destroy_process_group()
say("the end")
"""


def test_a_process_makes_a_new_group_after_a_timeout(tmp_path):
    said = run(3, LATE.format(path=tmp_path), limit=1)
    assert "went well" not in said
    for name in ("recv", "irecv", "isend", "barrier", "alltoall", "first async"):
        assert said.count(f"late: {name}\n") == 1 and said.count(f"a new group: {name}\n") == 3, name
    assert said.count("the end") == 3


@pytest.mark.parametrize("default", ["lsched", "gloo"])
def test_members_make_their_groups_in_orders_of_their_own(default):
    said = run(3, """
    orders = {0: ([0, 1], [0, 2], [0, 1]), 1: ([0, 1], [0, 1], [1, 2], [1]), 2: ([0, 2], [1, 2])}
    x = torch.ones(3)
    for ranks in orders[rank]:
        group = dist.new_group(ranks, backend="lsched", use_local_synchronization=True)
        x.fill_(rank + 1)
        dist.all_reduce(x, group=group)
        assert x[0] == sum(each + 1 for each in ranks), (ranks, x)
    dist.barrier()
    say("all groups are right")
    """, backend=default)
    assert said.count("all groups are right") == 3
