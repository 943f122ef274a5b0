"""Groups whose ranks die or are missing while a group is opened. Ranks are processes of torchrun."""

import os
import socket
import subprocess
import sys

import above  # noqa: F401
import pytest
from waiting import EVENTS

HERE = os.path.dirname(os.path.abspath(__file__))
BEGIN = """
import os, sys
sys.path.append(os.environ["TESTS"])
import waiting
from datetime import timedelta
import torch, torch.distributed as dist, libsched.torch
rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
events = waiting.SharedEvents()
def say(text):
    os.write(1, (text + "\\n").encode())
"""


def torchrun(directory, ranks, body, *options):
    """Returns the output of the ranks. Blocks for at most 100 seconds."""
    program = directory / "program.py"
    program.write_text(BEGIN + body)
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nproc-per-node", str(ranks),
               "--monitor-interval", "0.1", *options, str(program)]
    environment = {**os.environ, EVENTS: str(directory), "TESTS": os.path.dirname(HERE)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment) as job:
        try:
            said, _ = job.communicate(timeout=100)
        except subprocess.TimeoutExpired:
            job.terminate()  # torchrun ends the ranks when it receives SIGTERM
            said, _ = job.communicate(timeout=60)
    print(said)
    return said


def free_port():
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]


@pytest.mark.parametrize("rendezvous", ["static", "c10d"])
def test_a_rank_dies_before_the_first_group_is_open(rendezvous, tmp_path):
    """Torchrun uses the same store for the next attempt. Rank 1 dies once another rank has written to the store."""
    port = str(free_port())
    options = {"static": ["--rdzv-backend", "static", "--master-port", port],
               "c10d": ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:" + port]}
    said = torchrun(tmp_path, 3, """
if rank == 1 and attempt == 0:
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    waiting.wait_until(lambda: any("lsched/" in each for each in store.list_keys()))
    os._exit(1)
dist.init_process_group("lsched", timeout=timedelta(seconds=20))
for _ in range(2):  # a later group may use the same store
    x = torch.ones(3)
    dist.all_reduce(x)
    store = dist.distributed_c10d._get_default_store()
    dist.destroy_process_group()
    dist.init_process_group("lsched", store=store, rank=rank, world_size=3, timeout=timedelta(seconds=20))
say(f"sum {x[0].item()} of attempt {attempt}")
dist.destroy_process_group()
""", "--max-restarts", "1", *options[rendezvous])
    assert said.count("sum 3.0 of attempt 1") == 3, said


def test_a_rank_that_is_missing_is_named(tmp_path):
    said = torchrun(tmp_path, 3, """
if rank == 2:
    events.wait("failed 0", "failed 1")
    os._exit(0)
try:
    dist.init_process_group("lsched", timeout=timedelta(seconds=2))
except dist.DistBackendError as error:
    say(f"{error} {error.__cause__.rank}")
events.set(f"failed {rank}")
""", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0")
    assert said.count("rank 2 did not reach init_process_group") == 2 and said.count(") 2\n") == 2, said
