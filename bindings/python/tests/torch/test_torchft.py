"""torchft's Manager over libsched: one of two replicas is killed, and a new one joins. Replicas are processes."""

import json
import os
import subprocess
import sys

import above  # noqa: F401
import pytest
from waiting import wait_until

coordination = pytest.importorskip("torchft.coordination", reason="torchft is not installed")
PROGRAM = """
import json, os, sys
import torch, torch.distributed as dist, torchft, libsched.torch
from datetime import timedelta
replica, output, end = sys.argv[1:]
limit = timedelta(seconds=30)
torch.manual_seed(int(replica))
model = torch.nn.Linear(8, 1)
inner = torch.optim.SGD(model.parameters(), lr=0.01)
store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
group = libsched.torch.process_group_for_torchft(limit)
manager = torchft.Manager(
    pg=group, min_replica_size=1, timeout=limit, quorum_timeout=limit, use_async_quorum=False,
    load_state_dict=lambda state: (model.load_state_dict(state["model"]), inner.load_state_dict(state["inner"])),
    state_dict=lambda: {"model": model.state_dict(), "inner": inner.state_dict()},
    replica_id=replica, store_addr="localhost", store_port=store.port, rank=0, world_size=1)
ddp, optimizer = torchft.DistributedDataParallel(manager, model), torchft.Optimizer(manager, inner)
with open(output, "a", buffering=1) as file:
    while not os.path.exists(end):
        x = torch.full((2, 8), float(replica) + 1)
        optimizer.zero_grad()
        ddp(x).sum().backward()
        before = manager.current_step()
        optimizer.step()
        told = {"replica": replica, "pid": os.getpid(), "step": manager.current_step(),
                "present": manager.num_participants(), "gradient": model.bias.grad.item(),
                "weight": model.weight.sum().item()}
        if manager.current_step() > before:
            file.write(json.dumps(told) + "\\n")
os._exit(0)
"""


def test_a_replica_dies_and_a_new_one_joins(tmp_path):
    lighthouse = coordination.LighthouseServer(bind="[::]:0", min_replicas=1, join_timeout_ms=1000, quorum_tick_ms=20,
                                               heartbeat_timeout_ms=1000)
    (tmp_path / "program.py").write_text(PROGRAM)
    output, end = tmp_path / "output", tmp_path / "end"
    output.touch()
    jobs = []

    def start(replica):
        with (tmp_path / f"said.{len(jobs)}").open("w") as file:
            jobs.append(subprocess.Popen([sys.executable, "-W", "ignore", str(tmp_path / "program.py"), replica,
                                          str(output), str(end)], stdout=file, stderr=subprocess.STDOUT,
                                         env={**os.environ, "TORCHFT_LIGHTHOUSE": lighthouse.address()}))
        return jobs[-1].pid

    def steps(pid, present):
        lines = [json.loads(each) for each in output.read_text().splitlines() if each.endswith("}")]
        return [each for each in lines if (each["pid"], each["present"]) == (pid, present)]

    try:
        first, second = start("0"), start("1")
        wait_until(lambda: len(steps(first, 2)) > 20 and len(steps(second, 2)) > 20, 60)
        jobs[1].kill()
        wait_until(lambda: len(steps(first, 1)) > 20, 60)
        third = start("1")
        wait_until(lambda: len(steps(third, 2)) > 20, 60)
        end.touch()
        assert jobs[0].wait(30) == 0 and jobs[2].wait(30) == 0
        by_step = {each["step"]: each for each in steps(first, 2)}
        pairs = [(by_step[each["step"]], each) for each in steps(third, 2) if each["step"] in by_step]
        assert len(pairs) > 10 and all(mine["weight"] == theirs["weight"] for mine, theirs in pairs)
        assert all(abs(each["gradient"] - 2) < 1e-6 for each in steps(third, 2))  # the mean of two equal gradients
    finally:
        for job in jobs:
            job.kill()
            job.wait()
        for each in sorted(tmp_path.glob("said.*")):
            print("".join(line for line in each.read_text().splitlines(True) if "[INFO]" not in line))
        lighthouse.shutdown()
