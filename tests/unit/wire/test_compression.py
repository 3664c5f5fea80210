from __future__ import annotations

import sys
import tracemalloc

import pytest

from rocketline.errors import LocalProtocolError, MissingExtraError, RemoteProtocolError
from rocketline.model.sys_flags import CompressionType
from rocketline.wire.compression import compress, decompress

HELLO = b"hello hello hello hello"
JAVA_HELLO = {
    CompressionType.ZLIB: bytes.fromhex("785ecb48cdc9c957c8402701680308b1"),
    CompressionType.LZ4: bytes.fromhex("04224d186070730f0000006868656c6c6f2006005068656c6c6f00000000"),
    CompressionType.ZSTD: bytes.fromhex("28b52ffd00586400003068656c6c6f200100994b11010000"),
}
KINDS = list(CompressionType)
ZLIB, LZ4, ZSTD = CompressionType.ZLIB, CompressionType.LZ4, CompressionType.ZSTD


@pytest.mark.parametrize("kind", KINDS)
def test_body_that_java_compressed_is_expanded(kind: CompressionType) -> None:
    """Vector M."""
    assert decompress(JAVA_HELLO[kind], kind) == HELLO


def test_zlib_and_lz4_are_written_as_java_writes_them() -> None:
    """Vector M. LZ4 has the descriptor of Java: 60 70, independent blocks of 4 MiB, no sums, no size."""
    assert compress(HELLO, ZLIB) == JAVA_HELLO[ZLIB]
    assert compress(HELLO, LZ4) == JAVA_HELLO[LZ4]


def test_zstd_is_streamed_without_content_size_as_java_writes_it() -> None:
    assert compress(HELLO, ZSTD)[:6] == JAVA_HELLO[ZSTD][:6]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", [b"", b"x", bytes(range(256)) * 400, bytes(9_000_000)], ids=len)
def test_body_when_compressed_and_expanded_is_the_same(body: bytes, kind: CompressionType) -> None:
    data = compress(body, kind)
    assert decompress(data, kind, expanded_bytes_max=len(body)) == body


@pytest.mark.parametrize("kind", KINDS)
def test_body_one_byte_beyond_the_bound_is_refused(kind: CompressionType) -> None:
    with pytest.raises(RemoteProtocolError, match=f"{kind.name} body expands beyond 22 bytes"):
        decompress(JAVA_HELLO[kind], kind, expanded_bytes_max=22)


@pytest.mark.parametrize("kind", KINDS)
def test_bomb_is_refused_before_it_fills_memory(kind: CompressionType) -> None:
    bomb = compress(bytes(100_000_000), kind)
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match="expands beyond 1000000 bytes"):
            decompress(bomb, kind, expanded_bytes_max=1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (LZ4, bytes.fromhex("04224d186c70ffffffffffffff7f84")),
        (ZSTD, bytes.fromhex("28b52ffde0ffffffffffffff7f010000")),
        (ZSTD, bytes.fromhex("28b52ffd00f8010000")),
    ],
    ids=["LZ4 size", "ZSTD size", "ZSTD window"],
)
def test_size_that_a_header_promises_allocates_nothing(kind: CompressionType, data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            decompress(data, kind)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_body_cut_short_anywhere_is_refused(kind: CompressionType) -> None:
    data = JAVA_HELLO[kind]
    for end in range(len(data)):
        with pytest.raises(RemoteProtocolError, match=f"{kind.name} body cannot be expanded"):
            decompress(data[:end], kind)


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_after_the_end_are_refused(kind: CompressionType) -> None:
    with pytest.raises(RemoteProtocolError, match="2 more bytes follow"):
        decompress(JAVA_HELLO[kind] + b"xx", kind)


@pytest.mark.parametrize("kind", KINDS)
def test_body_that_was_never_compressed_is_refused(kind: CompressionType) -> None:
    with pytest.raises(RemoteProtocolError, match=f"{kind.name} body cannot be expanded"):
        decompress(HELLO, kind)


@pytest.mark.parametrize(("kind", "level"), [(ZLIB, -1), (ZLIB, 10), (ZSTD, 0), (ZSTD, 23)])
def test_level_that_does_not_exist_is_refused(kind: CompressionType, level: int) -> None:
    with pytest.raises(LocalProtocolError, match=f"{kind.name} level {level}: choose one from"):
        compress(HELLO, kind, level)


@pytest.mark.parametrize(("kind", "level"), [(ZLIB, 0), (ZLIB, 9), (ZSTD, 1), (ZSTD, 22), (LZ4, 99)])
def test_level_that_exists_is_used(kind: CompressionType, level: int) -> None:
    assert decompress(compress(HELLO, kind, level), kind) == HELLO


@pytest.mark.parametrize(("kind", "module", "package"), [(LZ4, "lz4.frame", "lz4"), (ZSTD, "zstandard", "zstandard")])
def test_missing_package_is_named_with_its_install_line(
    kind: CompressionType, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    said = rf"needs the package {package}\. .*rocketline\[compression\]"
    with pytest.raises(MissingExtraError, match=said):
        compress(HELLO, kind)
    with pytest.raises(MissingExtraError, match=said):
        decompress(JAVA_HELLO[kind], kind)
