"""Local steps and merges (libsched.torch.DiLoCo) after the death of a rank. Ranks are processes."""

import pytest

from test_failures import run

DEATH = """
from libsched import PeerLost
import libsched.torch as lst
torch.manual_seed(rank)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
inner = torch.optim.SGD(model.parameters(), lr=0.01)
outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9)
diloco = lst.DiLoCo(list(model), inner, outer, 4, fragment_sync_delay=1, timeout=30, {options})
for i in diloco.rounds(range(1000), until=10):
    if rank == 1 and diloco.steps == {death}:
        os._exit(0)
    inner.zero_grad()
    model(torch.randn(2, 4)).square().mean().backward()
    try:
        inner.step()
    except PeerLost:
        world = diloco.shrink()
        say(f"survivors: {{world.size}}")
mine = torch.cat([each.detach().flatten() for each in model.parameters()])
both = torch.empty(2 * mine.numel())
with diloco.world.allgather(mine, both) as gather:
    gather.run(30)
assert torch.equal(*both.chunk(2)) and min(diloco.fragment_rounds) > 10
say("alike")
diloco.close()
os._exit(0)
"""


@pytest.mark.parametrize("options, death", [("", 5), ("quorum=2", 7)])
def test_survivors_train_on_with_equal_weights(options, death):
    said = run(3, DEATH.format(options=options, death=death))
    assert said.count("survivors: 2\n") == 2 and said.count("alike\n") == 2, said


TURNS = """
import libsched.torch as lst
parts = [torch.nn.Parameter(torch.zeros(3)) for _ in range(2)]
inner, outer = torch.optim.SGD(parts, lr=1.0), torch.optim.SGD(parts, lr=1.0)
diloco = lst.DiLoCo([[each] for each in parts], inner, outer, 2, quorum=2, timeout=20)

def step():
    for each in parts:
        each.grad = torch.ones(3)
    inner.step()

step()
events.meet(rank, 3)
if rank < 2:
    step()  # round 2, of fragment 1
if rank == 1:
    os._exit(0)
diloco.shrink()
if rank == 2:
    step()  # calls for round 2, which is over, and so does not wait
step()  # both ranks call for round 3, and later for round 4
step()
say(f"rounds {diloco.fragment_rounds}")
diloco.close()
os._exit(0)
"""


def test_a_late_rank_does_not_wait_for_rounds_that_are_over():
    said = run(3, TURNS)
    assert said.count("rounds [2, 2]\n") == 2, said


REPLICAS = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
import libsched.torch as lst
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replica", "shard"))
torch.manual_seed(0)
model = fully_shard(torch.nn.Linear(5, 3), mesh=mesh["shard"])
opt = lst.PartialOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), replicas=mesh,
                           activation="quorum(1)", timeout=20)
torch.manual_seed(rank)
reports = []
for step in range(6 if rank < 2 else 3):
    if rank == 3:
        time.sleep(0.01)
    opt.zero_grad()
    model(torch.randn(4, 5)).square().mean().backward()
    opt.step()
    reports.append((opt.report.from_, opt.report.to, opt.report.groups))
opt.flush()
opt.average_parameters()
weights = torch.cat([each.full_tensor().flatten() for each in model.parameters()])
every = [None] * 4
dist.all_gather_object(every, (reports, weights.tolist()))
assert every[0][0] == every[1][0] and every[2][0] == every[3][0], every
assert all(each[1] == every[0][1] for each in every), every
say("alike")
opt.close()
os._exit(0)
"""


def test_all_shards_of_a_replica_group_step_by_the_same_rounds():
    """Two groups of two shards, with FSDP2 inside a group. One shard is slow."""
    said = run(4, REPLICAS)
    assert said.count("alike\n") == 4, said
