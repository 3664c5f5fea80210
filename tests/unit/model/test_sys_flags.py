from __future__ import annotations

import pytest

from rocketline.errors import RemoteProtocolError
from rocketline.model import sys_flags
from rocketline.model.sys_flags import CompressionType


@pytest.mark.parametrize(
    ("sys_flag", "kind"),
    [
        (0x001, CompressionType.ZLIB),
        (0x101, CompressionType.LZ4),
        (0x201, CompressionType.ZSTD),
        (0x301, CompressionType.ZLIB),
        (-0x700, CompressionType.LZ4),
    ],
)
def test_compression_type_of_known_bits_is_named(sys_flag: int, kind: CompressionType) -> None:
    assert sys_flags.compression_type(sys_flag) is kind


@pytest.mark.parametrize("number", [4, 5, 6, 7])
def test_compression_type_of_unknown_bits_is_refused(number: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"compression type {number}"):
        sys_flags.compression_type(number << 8 | 1)


def test_flags_of_a_compressed_body_are_those_java_sends() -> None:
    assert CompressionType.ZLIB.sys_flag == 769
    assert [kind.sys_flag for kind in (CompressionType.LZ4, CompressionType.ZSTD)] == [0x101, 0x201]


def test_inner_batch_needs_both_bits() -> None:
    assert sys_flags.is_inner_batch(0xC0)
    assert not sys_flags.is_inner_batch(0x40)
    assert not sys_flags.is_inner_batch(0x80)


def test_transaction_type_when_replaced_leaves_other_bits() -> None:
    committed = sys_flags.with_transaction_type(0x331 | sys_flags.TRANSACTION_PREPARED, sys_flags.TRANSACTION_COMMIT)
    assert committed == 0x339
    assert committed & sys_flags.TRANSACTION_MASK == sys_flags.TRANSACTION_COMMIT
    assert sys_flags.with_transaction_type(committed, 0) == 0x331
