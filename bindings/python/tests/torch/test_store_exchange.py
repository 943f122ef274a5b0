"""The exchange of bytes by torch's store, with which the first group of a process opens its world."""

import threading

import above  # noqa: F401
import pytest
import torch.distributed as dist
import waiting
from waiting import LIMIT

import libsched.torch._worlds as worlds


class CountedStore:
    """A store that counts its calls. A call of a TCPStore takes at most two round trips, however many keys it has."""

    def __init__(self, store):
        self.store = store
        self.calls = 0

    def __getattr__(self, name):
        def call(*arguments):
            self.calls += name != "has_extended_api"  # is answered without the store
            return getattr(self.store, name)(*arguments)

        return call


class Ranks:
    """Exchanges by threads. The thread of a rank exchanges three times, and keeps the results or the error."""

    def __init__(self, stores):
        self.stores = stores
        self.results = [None] * len(stores)
        self.threads = [None] * len(stores)

    def start(self, *ranks, limit=LIMIT):
        for rank in ranks:
            self.results[rank] = None
            self.threads[rank] = threading.Thread(target=self._exchange, args=(rank, limit))
            self.threads[rank].start()

    def _exchange(self, rank, limit):
        try:
            exchange = worlds._StoreExchange(self.stores[rank], rank, len(self.stores), limit)
            self.results[rank] = [exchange(b"%d of %d" % (call, rank)) for call in range(3)]
        except dist.DistBackendError as error:
            self.results[rank] = error

    def join(self, *ranks):
        for rank in ranks:
            self.threads[rank].join(2 * LIMIT)

    def expect_all(self):
        self.join(*range(len(self.stores)))
        expected = [[b"%d of %d" % (call, rank) for rank in range(len(self.stores))] for call in range(3)]
        assert self.results == [expected] * len(self.stores)

    def expect_absent(self, rank, *ranks):
        self.join(*ranks)
        assert [self.results[each].__cause__.rank for each in ranks] == [rank] * len(ranks)


@pytest.fixture
def connect():
    """A function that connects to one TCPStore."""
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    return lambda: dist.TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False)


@pytest.fixture
def stores(connect):
    return [dist.PrefixStore("group", connect()) for _ in range(3)]


@pytest.mark.parametrize("kind", ["tcp", "hash", "file"])
@pytest.mark.parametrize("count", [1, 3, 7])
def test_all_ranks_get_the_bytes_of_all_ranks_several_times(kind, count, connect, tmp_path, monkeypatch):
    monkeypatch.setattr(worlds, "_RANKS_OF_PART", 3)
    shared = dist.HashStore()
    make = {"tcp": connect, "hash": lambda: shared, "file": lambda: dist.FileStore(str(tmp_path / "store"), count)}
    ranks = Ranks([dist.PrefixStore("group", make[kind]()) for _ in range(count)])
    for _ in range(3):
        ranks.start(*range(count))
        ranks.expect_all()


def test_the_number_of_calls_does_not_grow_with_the_number_of_ranks():
    for count in (3, 7, 256):
        ranks = Ranks([CountedStore(each) for each in [dist.HashStore()] * count])
        ranks.start(*range(count))
        ranks.expect_all()
        calls = [each.calls for each in ranks.stores]
        assert max(calls) <= 15, (count, calls)


def test_an_absent_rank_is_named_and_the_next_exchange_succeeds(stores):
    for absent, others in ((1, (0, 2)), (2, (0, 1)), (0, (1, 2))):
        ranks = Ranks(stores)
        ranks.start(*others, limit=0.5)
        ranks.expect_absent(absent, *others)
        ranks.start(0, 1, 2)
        ranks.expect_all()


def test_a_rank_waits_while_the_others_are_started_again(stores):
    ranks = Ranks(stores)
    ranks.start(2)
    ranks.start(0, limit=0.5)
    ranks.expect_absent(1, 0)
    ranks.start(0, 1)
    ranks.expect_all()


def test_rank_0_may_have_died_before_it_began_a_number(stores):
    stores[0].add("lsched/count", 1)
    ranks = Ranks([CountedStore(each) for each in stores])
    ranks.start(1)
    waiting.wait_until(lambda: ranks.stores[1].calls == 2)  # the rank waits for the number to begin
    ranks.start(0, 2)
    ranks.expect_all()
