"""Collectives and messages in torch's profiler and in CommDebugMode. Ranks are processes."""

from test_failures import run


def test_collectives_are_events_of_the_profiler_as_those_of_gloo_are():
    said = run(2, """
    import collections
    from torch.profiler import ProfilerActivity, profile
    import torch.distributed._functional_collectives as functional
    from torch.distributed.tensor.debug import CommDebugMode

    def calls(group):
        x, all = torch.ones(3, 4), [torch.ones(3, 4) for _ in range(2)]
        mine = all if rank == 0 else None
        dist.all_reduce(x, group=group)
        dist.all_reduce(x, group=group, async_op=True).wait()
        dist.broadcast(x, 0, group=group)
        dist.reduce(x, 0, group=group)
        dist.all_gather(all, x, group=group)
        dist.all_gather_into_tensor(torch.ones(6, 4), x, group=group)
        dist.gather(x, mine, 0, group=group)
        dist.scatter(x, mine, 0, group=group)
        dist.all_to_all_single(torch.ones(6, 4), torch.ones(6, 4), group=group)
        dist.all_to_all(all, [torch.ones(3, 4) for _ in range(2)], group=group)
        dist.barrier(group=group)
        if rank == 0:
            dist.send(x, 1, group=group)
        else:
            dist.recv(x, 0, group=group)
        with dist._coalescing_manager(group=group):
            dist.all_reduce(torch.ones(2), group=group)
            dist.all_reduce(torch.ones(5), group=group)

    def events(group, backend):
        calls(group)  # the profiler is not active: nothing is left for it
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as told:
            calls(group)
        mine = [(each.name.split(":")[1], str(each.input_shapes)) for each in told.events()
                if each.name.startswith(backend + ":")]
        return collections.Counter(mine)

    ours = events(dist.group.WORLD, "lsched")
    theirs = events(dist.new_group(backend="gloo"), "gloo")
    assert not theirs - ours, (theirs - ours, ours)
    with profile(activities=[ProfilerActivity.CPU]) as told:
        part = torch.empty(3)
        dist.reduce_scatter_tensor(part, torch.ones(6))
    (event,) = [each for each in told.events() if each.name == "lsched:reduce_scatter"]
    assert (part == 2).all() and event.cpu_time_total > 0
    with CommDebugMode() as counted:
        functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD).wait()
    assert counted.get_total_counts() == 1
    dist.destroy_process_group()
    say("the end")
    os._exit(0)
    """, limit=60)
    assert said.count("the end") == 2
