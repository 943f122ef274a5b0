"""Collectives in streams: the backend's control flow, with the fake driver in place of torch.cuda (cuda_double.py).

Ranks are processes. test_cuda.py tests tensors of a GPU.
"""

import os
import subprocess
import sys
import tempfile

import above  # noqa: F401
import pytest
from test_failures import run
from waiting import EVENTS

import libsched

HERE = os.path.dirname(os.path.abspath(__file__))
FAKE = os.path.abspath(os.path.join(os.path.dirname(libsched.__file__), os.pardir, os.pardir, "tests", "fake_cuda"))
needs_the_fake = pytest.mark.skipif(not os.path.exists(os.path.join(FAKE, "libcuda.so.1")),
                                    reason="the fake driver was not built: ninja -C build lsched_fake_cuda")


def launched(ranks, *program):
    """Runs a program in `ranks` processes. Returns their output."""
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run([sys.executable, "-m", "libsched", "run", "-n", str(ranks), sys.executable, *program],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100, text=True, check=False,
                              env={**os.environ, "LD_LIBRARY_PATH": FAKE, EVENTS: directory})
    print(done.stdout)
    return done.stdout


def in_streams(ranks, limit, body):
    begin = f"import sys\nsys.path.insert(0, {HERE!r})\nfrom stream_program import *\nbegin({limit})\n"
    return launched(ranks, "-W", "ignore", "-c", begin + "rank, x = dist.get_rank(), array(dist.get_rank())\n" + body)


@needs_the_fake
@pytest.mark.parametrize("ranks", [2, 3])
def test_rounds_in_streams(ranks):
    assert launched(ranks, os.path.join(HERE, "stream_program.py")).count("all is right") == ranks


@needs_the_fake
def test_a_round_whose_time_is_over_lets_its_stream_go_and_names_the_missing_rank():
    said = in_streams(2, 2, """
allreduce(x, is_async=False)
double.current_stream().synchronize()
events = SharedEvents()
if rank == 1:
    events.wait("verdict")
    os._exit(0)
work = allreduce(x, is_async=False)
double.current_stream().synchronize()  # for ever, if nobody gave it up
for attempt in range(2):
    try:
        allreduce(x, is_async=False)
        say("went well")
    except RuntimeError as error:
        say(f"heard: {error}")
assert work.is_completed() and not work.is_success() and "timeout" in str(work.exception())
try:
    work.wait()
except RuntimeError as error:
    say("wait has raised")
events.set("verdict")
os._exit(0)
""")
    assert said.count("heard") == 2 and "rank 1" in said and "was given up" in said, said
    assert "went well" not in said and said.count("wait has raised") == 1, said


@needs_the_fake
def test_the_death_of_a_rank_lets_streams_go_and_is_told_by_the_next_call():
    said = in_streams(3, 30, """
try:
    for i in range(100_000):
        if rank == 1 and i == 50:
            os._exit(0)
        allreduce(x, is_async=False)
        double.current_stream().synchronize()
except RuntimeError as error:
    say(f"heard: {error}")
os._exit(1)
""")
    assert said.count("heard: ") == 2 and said.count("rank 1 died") == 2, said


def test_what_is_not_there_for_devices_is_refused_before_anything_is_sent():
    said = run(2, """
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # as if there were no GPU
    import libsched.torch as lst
    from types import SimpleNamespace
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode():  # tensors that are on a device as far as anybody asks, and have no elements
        x, small, host = torch.zeros(4, device="cuda:0"), torch.zeros(2, device="cuda:0"), torch.zeros(4)
        another = torch.zeros(4)
        other = torch.zeros(4, device="meta")
    named = [("weight", torch.nn.Parameter(x))]
    inner = torch.optim.SGD([named[0][1]], 1.0)
    near = SimpleNamespace(is_cuda=True, device=torch.device("cuda", 0), dtype=torch.float32)
    for number, (words, call) in enumerate([
            ("no messages for tensors on cuda:0", lambda: dist.isend(x, 0)),
            ("no messages for tensors on cuda:0", lambda: dist.irecv(x, 0)),
            ("no sparse sums for tensors on cuda:0", lambda: lst._sparse.allreduce(dist.group.WORLD, x, None)),
            ("different lengths", lambda: dist.all_to_all_single(x, x, [1, 3], [1, 3])),
            ("cuda:0 and on cpu", lambda: dist.all_gather_into_tensor(host, small)),
            ("cpu and on cuda:0", lambda: dist.reduce_scatter_tensor(small, host)),
            ("cuda:0 and on cpu", lambda: dist.all_gather([host, another], x)),
            ("not on meta", lambda: dist.all_reduce(other)),
            ("models on the CPU", lambda: lst.PartialOptimizer(inner, named)),
            ("models on the CPU", lambda: lst.AdasumOptimizer(inner, named)),
            ("CUDA", lambda: dist.group.WORLD._kind(("any",), "barrier", near))]):
        try:
            call()
            say(f"{number} went well")
        except (RuntimeError, ValueError) as error:
            say(f"refused: {words in str(error)} {number} {error}")
    os._exit(0)
    """)
    assert "went well" not in said and said.count("refused: True") == 2 * 11, said
