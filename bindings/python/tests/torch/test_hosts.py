"""Training under torchrun on several hosts, which are namespaces of this machine (`hosts`)."""

import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
HOSTS = os.path.join(HERE, "hosts")

pytestmark = pytest.mark.skipif(
    subprocess.run([HOSTS, "1", "true"], capture_output=True, check=False).returncode != 0,
    reason="this system permits no namespaces of network and processes (`unshare --map-root-user --net --pid`)",
)


def torchrun(hosts, ranks, *arguments):
    """Starts `ranks` ranks on each host. Returns the exit status and the output."""
    options = f"--nnodes {hosts} --nproc-per-node {ranks} --node-rank $HOST --master-addr 10.77.0.1 --master-port 29500"
    command = f'exec "{sys.executable}" -m torch.distributed.run {options} "$@"'
    done = subprocess.run(
        [HOSTS, str(hosts), "bash", "-c", command, "torchrun", *arguments],
        env={**os.environ, "GLOO_SOCKET_IFNAME": "eth0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    print(done.stdout)
    return done.returncode, done.stdout


def test_training_is_that_of_gloo_and_of_one_process():
    status, said = torchrun(2, 2, os.path.join(HERE, "hosts_program.py"))
    assert status == 0 and said.count(" is done") == 4


DIES = """
import os, torch, torch.distributed as dist, libsched.torch
dist.init_process_group("lsched")
rank, life = dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(7, 3))
try:
    for step in range(10):
        if rank == 1 and step == 5 and life == "0":
            os._exit(1)
        model(torch.ones(2, 7)).sum().backward()
except RuntimeError as error:
    os.write(1, f"rank {rank} heard: {error}\\n".encode())
    os._exit(1)
os.write(1, f"rank {rank} is done in life {life}\\n".encode())
dist.destroy_process_group()
"""


def test_torchrun_starts_all_ranks_again_after_a_death(tmp_path):
    (tmp_path / "dies.py").write_text(DIES)
    status, said = torchrun(3, 1, "--max-restarts", "1", str(tmp_path / "dies.py"))
    assert status == 0 and said.count(" is done in life 1") == 3
    heard = [line for line in said.splitlines() if "heard: " in line]
    assert len(heard) == 2 and all("rank 1 died" in line for line in heard)
    assert said.count("rank 1 is on host ") >= 2 and said.count(", 10.77.0.2; the network to that host may") >= 2
