"""The elastic agent of torchrun: nodes join and leave, with and without enable_reconfigure. Agents are processes."""

import contextlib
import os
import signal
import subprocess
import sys

import above  # noqa: F401
import pytest
from test_openings import HERE, free_port
from test_reconfigure import needs_reconfigure
from waiting import EVENTS, wait_until

PROGRAM = """
import os, sys
sys.path.append(os.environ["TESTS"])
import waiting
from datetime import timedelta
import torch, torch.distributed as dist, libsched.torch
from libsched.torch._worlds import _StoreExchange
events = waiting.SharedEvents()
is_reconfigured = sys.argv[1] == "reconfigure"
limit = timedelta(seconds=40)
dist.init_process_group("lsched", timeout=limit, **({"enable_reconfigure": True} if is_reconfigured else {}))
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if is_reconfigured:
    exchange = _StoreExchange(dist.distributed_c10d._get_default_store(), rank, size, 40)
    handles = [each.decode() for each in exchange(dist._get_reconfigure_handle().encode())]
    dist._reconfigure(1, handles).wait()
x = torch.ones(3)
dist.all_reduce(x)
os.write(1, f"world of {int(x[0])}\\n".encode())
while not events.is_set("end") or size == 2:
    dist.all_reduce(x)
    waiting.compute_for(0.01)
os.write(1, b"ended\\n")
dist.destroy_process_group()
"""


@contextlib.contextmanager
def agent(directory, name, port, kind):
    """Starts torchrun for one rank. Yields a function that returns the output so far, and the process."""
    program, output = directory / "program.py", directory / f"{name}.txt"
    program.write_text(PROGRAM)
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nnodes", "1:2",
               "--nproc-per-node", "1", "--max-restarts", "5", "--monitor-interval", "0.1", "--rdzv-backend", "c10d",
               "--rdzv-endpoint", f"localhost:{port}", "--rdzv-conf",
               f"last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3,is_host={int(name == 'first')}",
               str(program), kind]
    # With a shared store, the agents of torch 2.13 and 2.15 wait for each other forever after a node has joined.
    environment = {**os.environ, EVENTS: str(directory), "TESTS": os.path.dirname(HERE),
                   "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    with output.open("w") as file, subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment,
                                                    start_new_session=True) as job:
        try:
            yield output.read_text, job
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
            print(output.read_text())


@pytest.mark.parametrize("kind", ["plain", pytest.param("reconfigure", marks=needs_reconfigure)])
def test_a_node_joins_and_dies(kind, tmp_path):
    port = free_port()
    with agent(tmp_path, "first", port, kind) as (said, first):
        wait_until(lambda: "world of 1" in said(), 60)
        with agent(tmp_path, "second", port, kind) as (of_second, second):
            wait_until(lambda: "world of 2" in said() and "world of 2" in of_second(), 60)
            children = subprocess.run(["pgrep", "-P", str(second.pid)], capture_output=True, text=True).stdout.split()
            os.killpg(second.pid, signal.SIGKILL)
            for each in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(each), signal.SIGKILL)
        (tmp_path / "end").write_text("")
        wait_until(lambda: first.poll() is not None, 60)
        assert first.returncode == 0 and said().count("world of 1") == 2 and "ended" in said(), said()
