"""What comes back from a stranger's process is checked before it is believed."""

import contextlib
import json
import os
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapbench import GapbenchError
from gapbench.runs.entries import as_json, board_entry, read_entry
from gapbench.sandbox.limits import Limits
from gapbench.sandbox.protocol import Garbled, clean, frame, number, parse_line, read_frame
from gapbench.sandbox.watch import _below


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none()), st.binary(max_size=2**17))
@settings(max_examples=25, deadline=None)
def test_frames_arrive_as_they_were_sent(header, blob):
    reader, writer = os.pipe()

    def send():
        for part in frame(header, blob):
            view = memoryview(part)
            while view:
                view = view[os.write(writer, view) :]
        os.close(writer)

    thread = threading.Thread(target=send)
    thread.start()
    assert read_frame(reader) == (header, blob)
    assert read_frame(reader) is None
    thread.join()
    os.close(reader)


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_line_is_a_message_or_garbled(line):
    with contextlib.suppress(Garbled):
        assert isinstance(parse_line(line)["kind"], str)


@pytest.mark.parametrize(
    "line",
    [b"", b"\xff", b"[1]", b"{}", b'{"kind": 1}', b"[" * 60_000, b'{"kind": "x", "value": NaN}', b"1" * 5000],
)
def test_garbled_lines(line):
    with pytest.raises(Garbled):
        parse_line(line)


@pytest.mark.parametrize("value", [None, True, "1", [1], float("inf"), float("nan"), 10**400, {}])
def test_what_is_no_number(value):
    with pytest.raises(Garbled):
        number(value, "value")


def test_numbers():
    assert number(3, "value") == 3.0
    assert number(-1e300, "value") == -1e300
    with pytest.raises(Garbled):
        number(-1.0, "standard error", 0.0)


@given(st.text(), st.integers(10, 100))
def test_cleaned_text_is_one_short_printable_line(text, longest):
    line = clean(text, longest)
    assert len(line) <= longest
    assert "\n" not in line
    assert "\x1b" not in line
    assert clean(line, longest) == line


def test_limits_must_be_positive():
    with pytest.raises(GapbenchError, match="seconds"):
        Limits(seconds=0)


def test_a_folder_does_not_contain_what_only_begins_like_it():
    assert _below("/a/b", ["/a"])
    assert _below("/a", ["/a"])
    assert not _below("/ab", ["/a"])
    assert not _below("/", ["/a"])


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"format": 1}', '{"format": 2}'])
def test_what_is_no_entry_is_told(text, tmp_path):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(GapbenchError, match=r"x\.json"):
        read_entry(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": "../../x"}, r"`id` = '../../x' should be 16 hexadecimal digits"),
        ({"id": "0123456789abcdef\n"}, "should be 16 hexadecimal digits"),
        ({"proxy": "../x"}, r"`proxy` = '../x' should be a valid name"),
        ({"claimed": {"value": "much"}}, r"`claimed.value` = 'much' should be a number or null, not a text"),
        (
            {"values": {"c": {"status": "ok", "value": "1"}}},
            r"network c: `value` = '1' should be a number or null",
        ),
        ({"options": {"depth": []}}, r"its option depth: should be .*, not a list"),
        ({"statuses": {"ok": "many"}}, r"status ok: should be a whole number, not a text"),
        ({"population": {}}, r"`population.fingerprint` is missing"),
        ({"source": 1}, r"`source` = 1 should be a text, not a whole number"),
        ({"limits": {"seconds": -1.0}}, r"`limits`: The limit seconds = -1.0 must be positive\.$"),
        ({"verifications": [{"kind": "same networks"}]}, r"`verifications 1.outcome` is missing"),
        ({"higher_means": "more"}, r"`higher_means` = 'more' is none of worse, better"),
    ],
)
def test_an_entry_from_anybody_is_checked(change, words, entered_once, tmp_path):
    content = as_json(entered_once[1])
    assert read_entry(written(tmp_path / "x.json", content)) == entered_once[1]
    with pytest.raises(GapbenchError, match=words):
        read_entry(written(tmp_path / "x.json", content | change))


def test_what_a_later_version_or_another_hand_wrote_is_kept(entered_once, tmp_path):
    content = as_json(entered_once[1]) | {
        "later": {"x": [1]},
        "authors": None,
        "cost": None,
        "environment": None,
    }
    entry = read_entry(written(tmp_path / "x.json", content))
    assert as_json(entry)["later"] == {"x": [1]}
    assert read_entry(written(tmp_path / "x.json", as_json(entry))) == entry
    assert board_entry(entry)["authors"] == ""


def written(path, content):
    path.write_text(json.dumps(content))
    return path
