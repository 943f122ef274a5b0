"""Trains with torch.distributed. libsched sums the gradients instead of Gloo.

    torchrun --nproc-per-node 4 ddp.py           # or: lsched run -n 4 python ddp.py
"""
import torch
import torch.distributed as dist

import libsched.torch  # registers the backend; torch 2.14 and later find it by name

dist.init_process_group("lsched")
torch.manual_seed(dist.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
truth = torch.tensor([[1.0, -2.0, 3.0, 0.5]])
for step in range(200):
    inputs = torch.randn(16, 4)
    loss = (model(inputs) - inputs @ truth.T - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
error = (next(model.parameters()).detach() - truth).abs().max()
dist.all_reduce(error, dist.ReduceOp.MAX)
if dist.get_rank() == 0:
    print(f"the worst weight of {dist.get_world_size()} replicas is {error:.1e} off")
dist.destroy_process_group()
