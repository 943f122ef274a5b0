"""Futures of works: who completes them, and what callbacks may do."""

from test_failures import run


def test_a_callback_waits_for_another_work():
    """As the hook of PowerSGD does."""
    said = run(3, """
    def second(first):
        (sums,) = first.value()
        return dist.all_reduce(sums, async_op=True).get_future().wait()[0]
    for i in range(50):
        x = torch.full((1000,), 1.0)
        future = dist.all_reduce(x, async_op=True).get_future().then(second)
        assert (future.wait() == 9).all()
    say("all")
    """)
    assert said.count("all") == 3, said


def test_a_callback_waits_for_a_work_that_was_begun_before():
    said = run(2, """
    for i in range(50):
        x, y = torch.ones(10), torch.ones(10)
        works = [dist.all_reduce(each, async_op=True) for each in (x, y)]
        futures = [work.get_future() for work in works]
        told = futures[0].then(lambda _: futures[1].wait())
        assert (told.wait()[0] == 2).all() and (y == 2).all()
    say("all")
    """)
    assert said.count("all") == 2, said


def test_futures_are_completed_in_the_order_in_which_works_end():
    """What comes last is asked for first."""
    said = run(2, """
    for i in range(20):
        if rank == 0:
            come = torch.zeros(1)
            late = dist.irecv(come, 1).get_future()
            x = torch.ones(5)
            assert (dist.all_reduce(x, async_op=True).get_future().wait()[0] == 2).all()
            dist.send(torch.zeros(1), 1)
            late.wait()
            assert come[0] == 7
        else:
            dist.all_reduce(torch.ones(5))
            dist.recv(torch.zeros(1), 0)
            dist.send(torch.full((1,), 7.0), 0)
    say("all")
    """)
    assert said.count("all") == 2, said


def test_a_future_and_a_wait_of_one_message():
    said = run(2, """
    for i in range(200):
        x = torch.full((5,), float(rank))
        if rank == 0:
            work = dist.irecv(x, 1)
            future = work.get_future()
            work.wait()
            assert (future.wait()[0] == 1).all()
        else:
            dist.send(x, 0)
    say("all")
    """)
    assert said.count("all") == 2, said


def test_a_future_fails_after_the_time_of_its_operation():
    said = run(2, """
    if rank == 0:
        try:
            dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()
        except Exception as error:
            say(f"in vain: {error}")
    time.sleep(3)
    """, limit=2)
    assert said.count("in vain") == 1 and "timeout" in said, said


def test_the_hook_of_power_sgd():
    """One bucket: of several the hook orders its collectives differently on each rank, under any backend."""
    said = run(2, """
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64), torch.nn.Linear(64, 1))
    model = torch.nn.parallel.DistributedDataParallel(net)
    model.register_comm_hook(power.PowerSGDState(None, 1, start_powerSGD_iter=2), power.powerSGD_hook)
    best = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(20):
        best.zero_grad()
        model(torch.randn(8, 64)).square().mean().backward()
        best.step()
    mine = torch.cat([each.detach().flatten() for each in model.parameters()])
    other = mine.clone()
    dist.broadcast(other, 0)
    say("alike" if torch.equal(mine, other) else "apart")
    """)
    assert said.count("alike") == 2, said


def test_the_interpreter_ends_while_futures_wait():
    said = run(2, """
    x = torch.ones(3)
    if rank == 0:
        dist.all_reduce(torch.ones(3), async_op=True).get_future().then(lambda _: say("called"))
    dist.irecv(x, 1 - rank).get_future()
    say("end")
    """)
    assert said.count("end") == 2 and "terminate" not in said and "Fatal" not in said, said


def test_groups_beside_another_default_backend():
    said = run(3, """
    pairs = [dist.new_group(ranks, backend="lsched") for ranks in ([0, 1], [1, 2], [2, 0], None)]
    x = torch.ones(3)
    for pair in pairs:
        if dist.get_rank(pair) >= 0:
            dist.all_reduce(x, group=pair)
    assert x[0] == 13, x
    dist.destroy_process_group(pairs[0])
    dist.all_reduce(x, group=pairs[3])
    say("all")
    """, backend="gloo")
    assert said.count("all") == 3, said


def test_a_group_that_was_given_up_says_so_at_every_call():
    said = run(2, """
    x = torch.ones(3)
    dist.all_reduce(x)
    if rank == 0:
        for i in range(6):
            try:
                dist.all_reduce(x)
                say("went well")
            except RuntimeError as error:
                say(f"refused: {error}")
    else:
        time.sleep(4)
    """, limit=1)
    assert said.count("refused") == 6 and said.count("was given up") == 5 and "went well" not in said, said
