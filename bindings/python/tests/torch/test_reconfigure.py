"""Process groups whose members change: torch's interface "reconfigure". Ranks are processes."""

import os
import subprocess
import sys
import textwrap

import above  # noqa: F401
import pytest
import torch
from waiting import EVENTS

HERE = os.path.dirname(os.path.abspath(__file__))
HAS_RECONFIGURE = hasattr(torch._C._distributed_c10d, "ReconfigureOptions")
needs_reconfigure = pytest.mark.skipif(not HAS_RECONFIGURE, reason=f"torch {torch.__version__} is older than 2.14, and "
                                       "cannot reconfigure process groups")
BEGIN = """
import os, re, sys, time, torch, torch.distributed as dist, libsched.torch
from datetime import timedelta
sys.path.append(os.environ["TESTS"])
import waiting
events = waiting.SharedEvents()
me, total = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
files = dist.FileStore(os.environ["FILES"], total)

def say(text):
    os.write(1, (text + "\\n").encode())

def begin():
    dist.init_process_group("lsched", store=dist.HashStore(), rank=0, world_size=1, enable_reconfigure=True,
                            timeout=timedelta(seconds=30))

def handles(step, members=range(total)):
    "Returns the handles of the members, by the number of the process."
    files.set(f"{step} {me}", dist._get_reconfigure_handle())
    return [files.get(f"{step} {each}").decode() for each in members]

def meet(step, members=range(total)):
    files.set(f"{step} met {me}", "yes")
    files.wait([f"{step} met {each}" for each in members], timedelta(seconds=30))

def move(uuid, to, seconds=30):
    assert dist._reconfigure(uuid, to, timeout=timedelta(seconds=seconds)).wait()

def expect_sum(members):
    "Checks a sum over the numbers of the processes that should be members."
    x = torch.full((5,), 10.0 ** me)
    dist.all_reduce(x)
    assert x[0] == sum(10.0 ** each for each in members), (x, members)
    assert dist.get_world_size() == len(members)

def expect_error(text, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except RuntimeError as error:
        assert re.search(text, str(error)), error
        return error
    raise AssertionError(f"no error: expected {text}")
"""


def run(ranks, body, directory, end=100):
    """Runs a program in processes that share a FileStore. Returns their output. Blocks for at most `end` seconds."""
    python = [sys.executable, "-W", "ignore", "-c", BEGIN + textwrap.dedent(body)]
    command = [sys.executable, "-m", "libsched", "run", "-n", str(ranks), *python]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=end, text=True,
                          check=False, env={**os.environ, EVENTS: str(directory), "TESTS": os.path.dirname(HERE),
                                            "FILES": str(directory / "files")})
    print(done.stdout)
    return done.stdout


def test_a_group_without_the_option_is_refused(tmp_path):
    said = run(1, """
    dist.init_process_group("lsched")
    group = dist.group.WORLD
    assert not getattr(group, "supports_reconfigure", False)
    is_new = hasattr(dist, "_reconfigure")
    text = "cannot be reconfigured: pass enable_reconfigure=True" if is_new else "install torch 2.14"
    expect_error(text, group.get_reconfigure_handle)
    expect_error(text, group.reconfigure, None)
    dist.destroy_process_group()
    say("refused")
    """, tmp_path)
    assert "refused" in said


@pytest.mark.skipif(HAS_RECONFIGURE, reason="torch has the option")
def test_an_old_torch_refuses_the_option():
    import torch.distributed as dist
    with pytest.raises(TypeError, match="enable_reconfigure"):
        dist.init_process_group("lsched", enable_reconfigure=True)


@needs_reconfigure
def test_members_change(tmp_path):
    said = run(3, """
    from torch._C._distributed_c10d import ErrorType
    begin()
    group = dist.group.WORLD
    x, everyone = torch.ones(3), [0, 1, 2]
    for call in (lambda: dist.all_reduce(x), lambda: dist.all_reduce(x, async_op=True), dist.barrier,
                 lambda: dist.broadcast(x, 0), lambda: dist.all_gather_into_tensor(x, x), lambda: group.send([x], 0, 0),
                 lambda: group.recv([x], 0, 0), lambda: dist.all_gather_object([None], 1),
                 lambda: group.world.barrier()):
        expect_error("has no members yet.*call torch.distributed._reconfigure", call)
    assert dist._supports_reconfigure() and group.get_error() == ErrorType.SUCCESS

    move(10 + me, [dist._get_reconfigure_handle()])  # each process alone
    assert dist.get_rank() == 0
    expect_sum([me])

    move(20, handles("all"))
    assert dist.get_rank() == me
    expect_sum(everyone)
    dist.broadcast(x.fill_(me), 2)
    assert x[0] == 2
    sent = dist.isend(torch.full((3,), float(me)), (me + 1) % 3)
    dist.recv(x, (me + 2) % 3)
    sent.wait()
    assert x[0] == (me + 2) % 3
    pair = dist.new_group([0, 2])
    if me != 1:
        dist.all_reduce(x.fill_(1), group=pair)
        assert x[0] == 2

    old = group.world
    move(30, handles("again"))
    assert not old.is_open
    expect_sum(everyone)
    move(40, handles("reversed")[::-1])
    assert dist.get_rank() == 2 - me
    expect_sum(everyone)
    move(50, set(handles("unordered")))  # equal ages: all keep their ranks
    assert dist.get_rank() == 2 - me
    expect_sum(everyone)

    before = handles("shrink")
    if me == 1:
        expect_error("", lambda: [dist.all_reduce(x) for _ in range(2)])  # the others leave its world
    else:
        move(60, [before[0], before[2]])
        assert dist.get_rank() == me // 2
        expect_sum([0, 2])
    move(70, set(handles("grow")))  # the process that was left out is younger, so it gets the last rank
    assert dist.get_rank() == {0: 0, 2: 1, 1: 2}[me]
    expect_sum(everyone)

    group.abort()
    assert group.get_error() == ErrorType.COMM_ERROR
    expect_error("was aborted", dist.all_reduce, x)
    move(80, handles("after abort"))
    assert group.get_error() == ErrorType.SUCCESS
    expect_sum(everyone)

    mine = dist._get_reconfigure_handle()
    expect_error("uuid 80 was already used", move, 80, [mine])
    expect_error("do not contain the handle of this rank", move, 81, [])
    expect_error("two of the handles belong to the same process", move, 82, [mine, mine])
    expect_error("'gloo' is not a handle of the backend lsched", move, 83, [mine, "gloo"])
    to = handles("late")
    expect_sum(everyone)  # the old world is still in use
    if me != 2:
        expect_error(r"rank 2 did not reach reconfigure\(\) in time", move, 90, to, 1)
    meet("late")
    expect_sum(everyone)
    expect_error("different handles", move, 91, to if me != 1 else [to[0], to[2], to[1]])
    meet("order")
    expect_sum(everyone)
    move(92, handles("end"))
    expect_sum(everyone)
    dist.destroy_process_group()
    say("all cases are right")
    """, tmp_path)
    assert said.count("all cases are right") == 3, said


@needs_reconfigure
def test_training_goes_on_after_a_death_with_a_new_member(tmp_path):
    said = run(4, """
    from torch._C._distributed_c10d import ErrorType
    from torch.nn.parallel import DistributedDataParallel as DDP
    begin()
    group = dist.group.WORLD
    torch.manual_seed(me)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    steps = 0

    def train(ddp, until):
        global steps
        while steps < until:
            optimizer.zero_grad()
            ddp(torch.full((2, 8), me + 1.0)).sum().backward()
            optimizer.step()
            steps += 1

    first = handles("first", [0, 1, 2]) if me < 3 else []
    if me < 3:
        move(1, first)
        ddp = DDP(model)
        train(ddp, 5)
        if me == 1:
            os._exit(0)
        error = expect_error("rank 1 died", train, ddp, 10)
        begun = time.monotonic()
        assert group.get_error() == ErrorType.REMOTE_ERROR
        for uuid, to in ((2, first), (3, [first[1], first[0], first[2]])):  # handles of the dead process
            error = expect_error(r"rank [01] of reconfigure\\(\\) has ended", move, uuid, to)
        failed = time.monotonic() - begun
        events.set("newcomer")
    else:
        events.wait("newcomer", limit=60)
    begun = time.monotonic()
    move(4, set(handles("second", [0, 2, 3])))
    assert dist.get_rank() == {0: 0, 2: 1, 3: 2}[me]
    if me == 3:
        ddp, steps = DDP(model), 5  # gets the weights of rank 0, which is no newcomer
    else:
        ddp = DDP(libsched.torch.unwrapped(ddp))
    train(ddp, 6)
    ended = time.monotonic() - begun
    train(ddp, 10)
    weights = [each.detach().clone() for each in model.parameters()]
    for each in weights:
        theirs = [torch.empty_like(each) for _ in range(3)]
        dist.all_gather(theirs, each)
        assert all(torch.equal(each, other) for other in theirs)
    gradient = model[1].bias.grad.item()
    assert abs(gradient - 2) < 1e-6, gradient  # the mean over the present members
    assert ended < 2, ended
    if me == 0:
        say(f"failed attempts {failed:.3f} s, from the failure to the next step {ended:.3f} s")
    dist.destroy_process_group()
    say("the end")
    """, tmp_path)
    assert said.count("the end") == 3, said
