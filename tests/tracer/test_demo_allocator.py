import pytest

from tracer.demo.allocator import PageAllocator


def test_hands_out_every_page_but_the_first_once() -> None:
    allocator = PageAllocator(9, seed=1)
    taken = [allocator.take(3), allocator.take(5)]
    assert sorted(page for pages in taken if pages for page in pages) == list(range(1, 9))
    assert allocator.free == 0


def test_takes_all_or_nothing() -> None:
    allocator = PageAllocator(5, seed=1)
    assert allocator.take(5) is None
    assert allocator.free == 4


def test_freed_pages_are_given_again_last() -> None:
    allocator = PageAllocator(5, seed=1)
    first = allocator.take(2)
    assert first is not None
    allocator.give_back(first)
    others = allocator.take(2)
    assert others is not None
    assert not set(first) & set(others)
    assert allocator.take(2) == first


@pytest.mark.parametrize("pages", [(0,), (1, 1)])
def test_refuses_pages_that_are_free(pages: tuple[int, ...]) -> None:
    allocator = PageAllocator(2, seed=1)
    allocator.take(1)
    with pytest.raises(ValueError, match=r"page \d is given back"):
        allocator.give_back(pages)


def test_workers_differ() -> None:
    assert PageAllocator(100, seed=1).take(50) != PageAllocator(100, seed=2).take(50)
