"""Models that torch.compile compiles, with DistributedDataParallel inside or outside of them. Ranks are processes."""

from test_failures import run


def test_a_compiled_model_trains_as_an_eager_one():
    said = run(2, """
    import torch._dynamo
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    gloo = dist.new_group(backend="gloo")

    def trained(where, group):
        torch._dynamo.reset()
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 4))
        if where == "inside":
            model = DistributedDataParallel(torch.compile(net, backend="eager"), process_group=group)
        else:
            model = DistributedDataParallel(net, process_group=group)
        if where == "outside":
            model = torch.compile(model, backend="eager")
        best = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(3):
            torch.manual_seed(10 * step + rank)
            best.zero_grad()
            model(torch.randn(5, 8)).square().sum().backward()
            best.step()
        return torch.cat([each.detach().flatten() for each in net.parameters()])

    wanted = trained("eager", gloo)
    for where, splits in (("outside", False), ("outside", True), ("inside", True), ("eager", True)):
        torch._dynamo.config.optimize_ddp = splits
        assert torch.allclose(trained(where, dist.group.WORLD), wanted, rtol=1e-5, atol=1e-6), (where, splits)
        say(f"alike: {where} {splits}")

    @torch.compile(backend="eager")
    def step(x):
        y = x + 1
        dist.all_reduce(y)
        return 2 * y

    assert (step(torch.ones(3)) == 8).all()
    dist.destroy_process_group()
    say("the end")
    os._exit(0)
    """, limit=60)
    assert said.count("alike") == 8 and said.count("the end") == 2
