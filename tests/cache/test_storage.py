"""Keys and values by column."""

from __future__ import annotations

import torch

from anyorder.cache.storage import KVStorage


def storage(capacity: int) -> KVStorage:
    return KVStorage(shapes=[(3, 4), (3, 4)], capacity=capacity, dtype=torch.float32, device=torch.device("cpu"))


def test_a_window_overwrites_its_columns_and_sees_all_visible_ones() -> None:
    kept = storage(8)
    first, second = torch.randn(5, 3, 4), torch.randn(2, 3, 4)
    kept.update(1, 0, 5, first, -first)
    keys, values = kept.update(1, 2, 5, second, -second)
    expected = torch.cat([first[:2], second, first[4:]]).transpose(0, 1)
    assert torch.equal(keys, expected)
    assert torch.equal(values, -expected)


def test_layers_do_not_share_columns() -> None:
    kept = storage(4)
    a, b = torch.randn(2, 4, 3, 4)
    kept.update(0, 0, 4, a, a)
    kept.update(1, 0, 4, b, b)
    assert torch.equal(kept.update(0, 0, 4, a, a)[0], a.transpose(0, 1))


def test_more_room_keeps_what_is_stored() -> None:
    kept = storage(4)
    stored = torch.randn(4, 3, 4)
    kept.update(0, 0, 4, stored, -stored)
    kept.reserve(3)
    assert kept.capacity == 4
    kept.reserve(5)
    assert kept.capacity >= 5
    assert torch.equal(kept.keys[0][:, :4], stored.transpose(0, 1))
    assert torch.equal(kept.values[0][:, :4], -stored.transpose(0, 1))
    assert kept.num_bytes == 2 * 2 * 3 * kept.capacity * 4 * 4


def test_columns_move_to_the_front_also_where_they_overlap() -> None:
    kept = storage(8)
    stored = torch.randn(8, 3, 4)
    for layer in range(2):
        kept.update(layer, 0, 8, stored + layer, -stored - layer)
    kept.move(torch.tensor([3, 4, 7]), 2)
    order = [0, 1, 3, 4, 7, 5, 6, 7]
    for layer in range(2):
        assert torch.equal(kept.keys[layer].transpose(0, 1), stored[order] + layer)
        assert torch.equal(kept.values[layer].transpose(0, 1), -stored[order] - layer)


def test_a_part_shares_the_memory() -> None:
    whole = storage(8)
    for keys in whole.keys:
        keys.zero_()
    part = whole.part(3, 4)
    stored = torch.randn(2, 3, 4)
    part.update(1, 1, 3, stored, -stored)
    assert part.capacity == 4
    assert torch.equal(whole.keys[1][:, 4:6], stored.transpose(0, 1))
    assert torch.equal(whole.values[1][:, 4:6], -stored.transpose(0, 1))
    assert not whole.keys[1][:, :4].any()


def test_columns_go_to_another_storage_and_come_back() -> None:
    one, other, back = storage(6), storage(9), storage(3)
    stored = torch.randn(6, 3, 4)
    for layer in range(2):
        one.update(layer, 0, 6, stored + layer, -stored - layer)
    places = torch.tensor([8, 0, 5])
    other.scatter(places, one, torch.tensor([1, 2, 4]))
    back.gather(other, places)
    for layer in range(2):
        assert torch.equal(back.keys[layer].transpose(0, 1), stored[[1, 2, 4]] + layer)
        assert torch.equal(back.values[layer].transpose(0, 1), -stored[[1, 2, 4]] - layer)
