"""The bits of groups and topics, as the classes of 5.5.0 work them out."""

from __future__ import annotations

import pytest

from rocketline.filter.bloom import bit_positions, map_size


def test_sizes_are_those_of_apaches() -> None:
    assert map_size(20, 32) == (3, 112)
    assert map_size(20, 64) == (3, 216)
    assert map_size(1, 1000) == (7, 9592)


@pytest.mark.parametrize(
    ("text", "of_112", "of_9592"),
    [
        ("g#T", [90, 68, 28], [3458, 6716, 7708, 7125, 3049, 1783, 8391]),
        ("orders#Bestellung-ü", [60, 80, 100], [4732, 3032, 1332, 367, 2067, 1648, 9540]),
        ("a group with more than sixteen bytes#topic", [111, 32, 79], [2439, 2032, 8503, 9447, 4616, 5919, 8144]),
        ("%RETRY%x#y", [69, 62, 55], [3197, 7942, 3095, 7840, 2993, 7738, 2891]),
        ("", [0, 0, 0], [0] * 7),
    ],
)
def test_positions_are_those_of_apaches(text: str, of_112: list[int], of_9592: list[int]) -> None:
    assert bit_positions(text, 3, 112) == of_112
    assert bit_positions(text, 7, 9592) == of_9592
