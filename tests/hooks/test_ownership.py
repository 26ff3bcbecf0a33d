from __future__ import annotations

import random
import threading

import pytest

from pd_tracer_hooks.ownership import PageOwners
from pd_tracer_hooks.wire import Owned


@pytest.mark.parametrize(
    ("freed_before", "freed_after", "owned"),
    [
        ([], [], Owned.yes),
        ([[1, 2, 3]], [], Owned.yes),
        ([], [[4, 5]], Owned.yes),
        ([], [[9, 3]], Owned.no),
        ([[3]], [[3]], Owned.no),
        ([[3]], [[4], [5], [1]], Owned.no),
    ],
)
def test_what_was_freed_since_the_claim(freed_before, freed_after, owned):
    owners = PageOwners()
    for pages in freed_before:
        owners.freed(pages)
    claim = owners.claim([1, 2, 3])
    for pages in freed_after:
        owners.freed(pages)
    assert claim.owned() is owned
    assert claim.owned() is owned


def test_untracked_frees_leave_it_unknown_but_a_free_that_is_seen_counts():
    owners = PageOwners(tracked=False)
    claim = owners.claim([1])
    assert claim.owned() is Owned.unknown
    owners.freed([1])
    assert claim.owned() is Owned.no


def test_lists_may_be_reused_by_the_allocator():
    owners = PageOwners()
    claim = owners.claim([7])
    pages = [7]
    owners.freed(pages)
    pages[0] = 8
    assert claim.owned() is Owned.no
    assert owners.claim([7]).owned() is Owned.yes


def test_numpy_arrays():
    numpy = pytest.importorskip("numpy")
    owners = PageOwners()
    claim, other = owners.claim(numpy.array([1, 2])), owners.claim([3])
    freed = numpy.array([2, 9])
    owners.freed(freed)
    freed[:] = 3
    assert (claim.owned(), other.owned()) == (Owned.no, Owned.yes)


def test_against_a_model_with_many_frees_and_nobody_asking():
    owners = PageOwners()
    chance = random.Random(5)
    claims = []
    for _ in range(5000):
        pages = chance.sample(range(60), 3)
        if chance.random() < 0.01:
            claims.append([owners.claim(pages), set(pages), Owned.yes])
        owners.freed(freed := chance.sample(range(10_000), 2) if chance.random() < 0.9 else pages)
        for claim in claims:
            if not claim[1].isdisjoint(freed):
                claim[2] = Owned.no
    assert [claim.owned() for claim, _, _ in claims] == [expected for _, _, expected in claims]
    assert {expected for _, _, expected in claims} == {Owned.yes, Owned.no}


def test_frees_from_many_threads_are_all_seen():
    owners = PageOwners()
    claims = [owners.claim([page]) for page in range(400)]
    kept = owners.claim([1000])

    def free(first: int) -> None:
        for page in range(first, first + 100):
            owners.freed([page])
            kept.owned()

    threads = [threading.Thread(target=free, args=(first,)) for first in range(0, 400, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {claim.owned() for claim in claims} == {Owned.no}
    assert kept.owned() is Owned.yes
