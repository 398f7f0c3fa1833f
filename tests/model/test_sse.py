"""The event framer: what counts as an event, and that it makes no difference how a stream is cut into reads."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopharness.model.deepseek.sse import Comment, Data, Event, Sse, TooLong, feed


def fed(*reads: bytes, state: Sse | None = None) -> list[Event]:
    """The events of a stream that comes in these reads."""
    state = Sse() if state is None else state
    events: list[Event] = []
    for read in reads:
        state, more = feed(state, read)
        events += more
    return events


RULES: tuple[tuple[str, bytes, list[Event]], ...] = (
    ("one event", b"data: a\n\n", [Data("a")]),
    ("no blank line, no event", b"data: a\n", []),
    ("no line end, no event", b"data: a", []),
    ("CRLF", b"data: a\r\n\r\n", [Data("a")]),
    ("CR", b"data: a\r\r", [Data("a")]),
    ("line ends may be mixed", b"data: a\r\ndata: b\rdata: c\n\r\n", [Data("a\nb\nc")]),
    ("CRLF is one line end", b"data: a\r\ndata: b\r\n\r\n", [Data("a\nb")]),
    ("LF CR is two", b"data: a\n\rdata: b\n\n", [Data("a"), Data("b")]),
    ("one blank behind the colon goes", b"data:  a \n\n", [Data(" a ")]),
    ("no blank is needed", b"data:a\n\n", [Data("a")]),
    ("colons are content", b"data: a: b\n\n", [Data("a: b")]),
    ("lines are joined", b"data: a\ndata:\ndata: b\n\n", [Data("a\n\nb")]),
    ("an empty data line is an event", b"data\n\ndata:\n\n", [Data(""), Data("")]),
    ("blank lines alone are none", b"\n\n\n", []),
    (
        "comments",
        b": hello\n:\ndata: a\n: in between\n\n",
        [Comment(" hello"), Comment(""), Comment(" in between"), Data("a")],
    ),
    ("other fields", b"event: x\nid: 1\nretry: 5\nfoo\ndata: a\n\n", [Data("a")]),
    ("fields only are no event", b"event: x\n\ndata: a\n\n", [Data("a")]),
    ("names are exact", b"Data: a\n data: b\ndatax: c\ndata : d\n\n", []),
    ("byte order mark", b"\xef\xbb\xbfdata: a\n\n", [Data("a")]),
    ("a second one is content", b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: \xef\xbb\xbfb\n\n", [Data("\ufeffb")]),
    ("not in a later line", b"\n\xef\xbb\xbfdata: a\n\n", []),
    ("not UTF-8", b"data: a\xff\xe4\xb8\n\n", [Data("a\ufffd\ufffd")]),
    ("UTF-8", "data: Grüße, 世界 🙂\n\n".encode(), [Data("Grüße, 世界 🙂")]),
    (
        "only LF and CR end lines",
        "data: a\u2028b\u0085c\x0bd\x0ce\x1cf\n\n".encode(),
        [Data("a\u2028b\u0085c\x0bd\x0ce\x1cf")],
    ),
    ("NUL", b"data: a\x00b\n\n", [Data("a\x00b")]),
)


@pytest.mark.parametrize(("stream", "events"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES])
def test_rules(stream: bytes, events: list[Event]) -> None:
    assert fed(stream) == events


@pytest.mark.parametrize("stream", [rule[1] for rule in RULES], ids=[rule[0] for rule in RULES])
def test_every_cut_into_two_and_into_bytes(stream: bytes) -> None:
    whole = fed(stream)
    for at in range(len(stream) + 1):
        assert fed(stream[:at], stream[at:]) == whole
    assert fed(*(stream[at : at + 1] for at in range(len(stream)))) == whole


LINES = st.sampled_from(
    [
        b"data: a",
        b"data:",
        b"data",
        b": c",
        b"",
        b"id: 7",
        b"\xef\xbb\xbf",
        "data: 世".encode(),
        b"\xff",
        b"data: " + b"x" * 40,
    ]
)
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n", b""])
STREAMS = st.one_of(
    st.binary(max_size=80),
    st.lists(st.tuples(LINES, ENDS), max_size=12).map(lambda parts: b"".join(a + b for a, b in parts)),
)


@given(STREAMS, st.lists(st.integers(0, 120), max_size=8), st.booleans(), st.sampled_from([8, 30, 1000]))
def test_any_cut_gives_the_same_events(stream: bytes, cuts: list[int], waits: bool, limit: int) -> None:
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    reads = [stream[a:b] for a, b in itertools.pairwise(places)]
    start = Sse(limit, waits)
    assert fed(*reads, state=start) == fed(stream, state=start)


@given(STREAMS)
def test_against_the_standard_read_in_one_piece(stream: bytes) -> None:
    """The same rules once more, written over the whole stream at once."""
    assert fed(stream) == naive(stream)


def naive(stream: bytes) -> list[Event]:
    """All events of a complete stream: normalise line ends, drop what has none, go line by line."""
    text = stream.removeprefix(b"\xef\xbb\xbf") if b"\n" in stream or b"\r" in stream else b""
    lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")[:-1]
    events: list[Event] = []
    data: list[str] | None = None
    for line in lines:
        if line == b"":
            events += [] if data is None else [Data("\n".join(data))]
            data = None
        elif line[:1] == b":":
            events.append(Comment(line[1:].decode("utf-8", "replace")))
        elif line == b"data" or line[:5] == b"data:":
            value = line[5:]
            value = value[1:] if value[:1] == b" " else value
            data = [*(data or ()), value.decode("utf-8", "replace")]
    return events


# -- the last CR -----------------------------------------------------------------------------------------------


def test_a_cr_ends_its_line_at_once() -> None:
    assert fed(b"data: a\r", b"\r") == [Data("a")]
    assert fed(b"data: a\r", b"\n\r", b"\ndata: b\n\n") == [Data("a"), Data("b")]


def test_a_published_framer_waits_for_one_more_byte() -> None:
    waiting = Sse(waits=True)
    assert fed(b"data: a\r\r", state=waiting) == []
    assert fed(b"data: a\r\r", b"x", state=waiting) == [Data("a")]
    assert fed(b"data: a\r", b"\n\r", b"\ndata: b\n\n", state=waiting) == [Data("a"), Data("b")]


# -- bounds ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize(
    "stream",
    [
        b"data: " + b"x" * 100,
        b": " + b"x" * 100 + b"\n",
        b"data: xxxxxxxxx\n" * 10,
        b"data:\n" * 100,
        b"x" * 100 + b"\n",
    ],
)
def test_an_event_beyond_the_limit_ends_everything(stream: bytes, step: int) -> None:
    reads = [stream[at : at + step] for at in range(0, len(stream), step)]
    assert fed(b"data: a\n\n", *reads, b"\n\ndata: b\n\n", state=Sse(64)) == [Data("a"), TooLong(64)]


def test_the_limit_is_for_one_event() -> None:
    assert (
        fed(b"data: 0123456789\n\n: 0123456789\n" * 20, state=Sse(16))
        == [Data("0123456789"), Comment(" 0123456789")] * 20
    )
    assert fed(b"0123456789abcdef\n", state=Sse(16)) == []
    assert fed(b"0123456789abcdefg\n", state=Sse(16)) == [TooLong(16)]
    assert fed(b"0123456789abcdefg", state=Sse(16)) == [TooLong(16)]
    assert fed(b"0123456789abcdefg\n\ndata: b\n\n", state=Sse(16)) == [TooLong(16)]
    assert fed(*[b"data: 01234", b"5\n\n"] * 20, state=Sse(16)) == [Data("012345")] * 20


def test_a_long_line_in_small_reads_is_not_copied_again_and_again() -> None:
    """The pieces of an unfinished line are kept apart and joined once."""
    state = Sse()
    for _ in range(1000):
        state, _ = feed(state, b"y" * 100)
    assert len(state.line) == 1000
    assert state.line_size == 100_000


def test_a_state_is_not_changed_by_what_comes_after_it() -> None:
    first, _ = feed(Sse(), b"data: a")
    assert feed(first, b"b\n\n")[1] == (Data("ab"),)
    assert feed(first, b"c\n\n")[1] == (Data("ac"),)
