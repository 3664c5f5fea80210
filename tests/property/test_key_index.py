"""The index finds what a plain list would, however it is cut into files, closed, reopened and hashed."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from rocketline.model.java_hash import java_string_hash
from rocketline.store.index import key_hashes, key_index
from rocketline.store.index.index_file import ENTRY, HEADER
from rocketline.store.index.index_keys import keys_in, weigh_stored
from rocketline.store.index.key_index import IndexRecord, KeyIndex
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.properties import encode_properties
from support.long_steps import outcome

FOLDER = Path("store/index")
ANY_TEXT = st.text(st.characters(), max_size=300)  # lone surrogates too: peers send them
ASCII_TEXT = st.text("0123456789ABCDEF-_%|", min_size=1, max_size=40)
ONE_LENGTH = st.integers(1, 256).flatmap(
    lambda size: st.lists(st.text("aZ09", min_size=size, max_size=size), min_size=16)
)
KEYS = st.one_of(st.lists(ANY_TEXT, min_size=1), st.lists(ASCII_TEXT, min_size=16), ONE_LENGTH)

key_hashes.load_numpy()


def expected(topic: str, key: str) -> int:
    hashed = abs(java_string_hash(f"{topic}#{key}"))
    return 0 if hashed == 2**31 else hashed


@given(st.lists(st.sampled_from(["T", "TopicTest", "%RETRY%g", "\u4e3b\u9898"]), min_size=1, max_size=3), KEYS)
def test_every_way_of_hashing_gives_javas_hash(some_topics: list[str], keys: list[str]) -> None:
    topics = [some_topics[number % len(some_topics)] for number in range(len(keys))]
    wanted = [expected(topic, key) for topic, key in zip(topics, keys, strict=True)]
    assert key_hashes.hash_keys(topics, keys) == wanted
    assert key_hashes.by_pieces(topics, keys) == wanted
    assert list(key_hashes.by_weights(topics, keys)) == wanted


UNIQUE = st.text("0123456789ABCDEF", min_size=32, max_size=32) | st.sampled_from([None, "", "u"])
RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["T", "TopicTest", "\u4e3b\u9898"]),
        st.tuples(UNIQUE, ASCII_TEXT | st.sampled_from([None, "", "k"]), st.sampled_from([None, "", "A", "TagB"])),
    ),
    min_size=40,
    max_size=60,
)


@given(RECORDS)
def test_records_hashed_by_columns_give_the_same_entries(some: list[tuple[str, tuple[str, str, str]]]) -> None:
    records: list[IndexRecord] = [(topic, keys, 100 * n, 1000 + n) for n, (topic, keys) in enumerate(some)]
    found = key_index._by_columns(records)
    assert found is not None
    assert tuple(column.tolist() for column in found) == key_index._one_by_one(records)


def test_what_is_unusual_is_hashed_one_by_one() -> None:
    usual: list[IndexRecord] = [("T", (f"u{n}", f"k{n}", "A"), n, n) for n in range(40)]
    assert key_index._by_columns(usual) is not None
    for keys in (("u", "two keys", None), ("\u4e3b", "k", None), ("u", "k" * 300, None)):
        assert key_index._by_columns([*usual, ("T", keys, 40, 40)]) is None


NAMED = st.lists(
    st.sampled_from(["UNIQ_KEY", "KEYS", "TAGS", "SPARK_ID", "MY_KEYS", "TAG"]), min_size=1, max_size=5, unique=True
)
VALUES = st.text("abcXYZ019-", min_size=1, max_size=40)


@st.composite
def stored_properties(draw: st.DrawFn) -> list[bytes]:
    """Properties of many messages, mostly of one shape; at times one of them is different."""
    names, count = draw(NAMED), draw(st.integers(32, 50))
    stored = [encode_properties({name: draw(VALUES) for name in names}) for _ in range(count)]
    odd = draw(
        st.none()
        | st.sampled_from([b"", b"KEYS\x01two keys\x02", b"KEYS\x02x\x01", b"TAGS\x01", "KEYS\x01\u4e3b\x02".encode()])
        | st.builds(encode_properties, st.dictionaries(st.sampled_from(["KEYS", "TAGS", "x"]), VALUES))
    )
    if odd is not None:
        stored[draw(st.integers(0, count - 1))] = odd
    return stored


@given(stored_properties())
def test_keys_that_are_left_in_their_properties_give_the_same_entries(stored: list[bytes]) -> None:
    raw: list[IndexRecord] = [("T", properties, 100 * n, 1000 + n) for n, properties in enumerate(stored)]
    read: list[IndexRecord] = [("T", keys_in(stored[n]), 100 * n, 1000 + n) for n in range(len(stored))]
    expected = key_index._one_by_one(read)
    assert key_index._one_by_one(raw) == expected
    found = key_index._by_columns(raw)
    assert found is None or tuple(column.tolist() for column in found) == expected


def test_properties_of_one_shape_are_weighed_as_they_are() -> None:
    stored = [encode_properties({"KEYS": f"k{n}", "x": "y", "UNIQ_KEY": f"{n:032X}", "TAGS": "A"}) for n in range(99)]
    weighed = weigh_stored(stored)
    assert weighed is not None
    assert [column is not None for column in weighed] == [True, True, True]
    for odd in (b"", b"KEYS\x02k\x01", encode_properties({"x": "y"}), stored[0] + stored[0], stored[0][:-1]):
        assert weigh_stored([*stored, odd]) is None


class IndexMachine(RuleBasedStateMachine):
    """Five slots and files of seven entries: chains are long, and a record's keys often fall into two files."""

    @initialize()
    def begin(self) -> None:
        self.clock = FakeClock()
        self.files = MemoryFileSystem(self.clock, capacity=1 << 20)
        self.entries: list[tuple[str, int, int]] = []
        self.log_offset = 0
        self.open()

    def open(self) -> None:
        self.index = KeyIndex(self.files, FOLDER, self.clock, slot_count=5, entry_count=8)
        self.index.load(is_clean=True, safe_until_ms=0, log_end=1 << 40)

    @rule(
        unique=st.sampled_from([None, "", "u1", "u2"]),
        keys=st.sampled_from([None, "", " ", "k1", "k1 k2", " k2  k3 "]),
        tag=st.sampled_from([None, "", "TagA"]),
        passed_s=st.sampled_from([0, 1, 5, 0.3]),
    )
    def add(self, unique: str | None, keys: str | None, tag: str | None, passed_s: float) -> None:
        self.clock.advance(passed_s)
        self.log_offset += 100
        self.index.add([("T", (unique, keys, tag), self.log_offset, self.clock.wall_ms())])
        texts = [unique or "", *(keys or "").split(" "), f"T#{tag}" if tag else ""]
        self.entries += [(text, self.log_offset, self.clock.wall_ms()) for text in texts if text]

    @rule()
    def add_again(self) -> None:
        if self.entries:
            self.index.add([("T", ("u1", "k1", "TagA"), self.entries[-1][1] - 1, self.clock.wall_ms())])

    @rule()
    def write_behind(self) -> None:
        self.index.write_behind()

    @rule()
    def sync_full_files(self) -> None:
        job = self.index.begin_sync()
        if job is not None:
            job.run()
            self.index.finish_sync(job)

    @rule()
    def reopen(self) -> None:
        self.index.close(is_clean=True)
        self.open()

    @rule(key=st.sampled_from(["u1", "u2", "k1", "k2", "k3", "none"]), max_count=st.integers(1, 5))
    def find(self, key: str, max_count: int) -> None:
        known = {offset: None for text, offset, _ in reversed(self.entries) if text == key}
        found = outcome(self.index.find("T", key, max_count, 0, 1 << 60))
        assert found == list(known)[:max_count]

    @rule(back_s=st.integers(0, 20), span_s=st.integers(0, 20))
    def find_tag_in_time(self, back_s: int, span_s: int) -> None:
        begin_ms = self.clock.wall_ms() - back_s * 1000
        end_ms = begin_ms + span_s * 1000
        found = outcome(self.index.find("T", "TagA", 100, begin_ms, end_ms, "T"))
        stored = {offset: ms for text, offset, ms in self.entries if text == "T#TagA"}
        assert all(begin_ms <= stored[offset] < end_ms + 1000 for offset in found)
        assert {offset for offset, ms in stored.items() if begin_ms + 1000 <= ms <= end_ms} <= set(found)

    @rule()
    def the_last_update_is_that_of_the_last_record_with_a_key(self) -> None:
        last = self.entries[-1] if self.entries else ("", 0, 0)
        assert self.index.last_update == (last[2], last[1])

    def teardown(self) -> None:
        if not hasattr(self, "index"):
            return
        self.index.close(is_clean=True)
        counted = 0
        for name in self.files.list(FOLDER):
            data = self.files.read_file(FOLDER / name) or b""
            number = HEADER.unpack_from(data)[5]
            counted += number - 1
            assert len(data) == HEADER.size + 5 * 4 + 8 * ENTRY.size
        assert counted == len(self.entries)


TestIndex = IndexMachine.TestCase
TestIndex.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
