"""What an audit says, and that a hostile ledger cannot say more."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from lab_utils.audit.finding import RULES
from lab_utils.audit.ledgers import Rejected
from lab_utils.audit.report import MISSING, Group, Report, page
from lab_utils.cli import _print_report

HOSTILE = '<script src="//evil">&\x1b[2J\u202e</script>'


def group(judgement: str, count: int, value: str = "1") -> Group:
    row = {"run": HOSTILE, "topic": "orders", "partition": 0, "value": value,
           "evidence": f"order {value} is lost"}  # fmt: skip
    return Group("lost-write", judgement, f"because {HOSTILE}", count, [row] * 3)


def report(*groups: Group) -> Report:
    rejected = Rejected(
        Counter({("file:/runs/a%20b.jsonl", "no whole JSON object"): 1200}),
        [("file:/runs/a%20b.jsonl", 7, "no whole JSON object", HOSTILE)],
    )
    return Report(["ledger"], 10_000, 2, list(groups), rejected, [HOSTILE], ["Every run: nothing."])


class Loads(HTMLParser):
    """The tags of a page, and what it would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One tag."""
        self.tags.add(tag)
        self.loaded += [name for name, _ in attrs if name in ("src", "href", "action", "data")]


def test_the_page_shows_what_it_is_given_and_does_nothing() -> None:
    """It loads nothing, runs nothing, and escapes every text of the ledger."""
    text = page(report(group("breach", 4, HOSTILE), group(f"allowed by {HOSTILE}", 3)))
    loads = Loads(text)

    assert [] == loads.loaded
    assert not loads.tags & {"script", "link", "img", "iframe", "object", "form", "base"}
    assert "&lt;script src=&quot;//evil&quot;&gt;&amp;\\x1b[2J\\u202e&lt;/script&gt;" in text
    assert not {"\x1b", "\u202e"} & set(text)
    assert "10,000 events, 2 runs: 7 findings, 4 breaches; 1,200 lines left out." in text


def test_a_name_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """What rich would take for its markup, or for the name of a picture, is a name of Kafka's."""
    lost = group("breach", 1)
    lost.first[0] |= {"run": "[bold]eu[/bold]", "topic": "orders:x:", "evidence": r"a\[b] is lost"}
    _print_report(report(lost), None)

    assert r"[bold]eu[/bold]/orders:x:/0: a\[b] is lost" in capsys.readouterr().out


def test_files_that_were_not_read() -> None:
    """They may have been witnesses: the first ones are named, and the others counted."""
    made = replace(report(), rejected=Rejected(Counter(), []), unknown=[], unread=[*"abcd\x1b"])

    assert [
        *(f"{it}: not read, for its name is not *.jsonl, *.jsonl.gz or *.parquet" for it in "abc"),
        "and 2 more files that may be a ledger, and were not read",
    ] == list(made.left_out())


def test_left_out() -> None:
    """How much, why, and where the first of it is; what a terminal would obey is shown instead."""
    counted, first, columns = report().left_out()

    assert "1,200 times: no whole JSON object (1 file)" == counted
    assert first.startswith("/runs/a b.jsonl:7: no whole JSON object: <script")
    assert not {"\x1b", "\u202e"} & {*first, *columns}


def test_what_is_told_of_an_order() -> None:
    """It is named once, where the evidence begins; a megabyte of a value is no line of a table."""
    short, long = (group("breach", 3, value).told()[0] for value in ("17", "x" * 10**6))

    assert 1 == short.count("17")
    assert len(long) < 1000
    assert "characters)" in long


def test_the_findings_that_a_ledger_cannot_have_exist() -> None:
    """What is said of missing events names findings by the names that they have."""
    named = {word.strip("(),.") for _, sentence in MISSING for word in sentence.split()}
    known = {word for word in named if word in RULES}

    assert {"lost-write", "duplicate", "unseen", "skipped-processing"} <= known
    assert set() == {word for word in named if "-" in word and word not in RULES} - {"--contract"}


def test_a_long_name_is_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """In a narrow terminal it goes on in the next line: it says where the finding is."""
    lost = group("breach", 1)
    lost.first[0]["topic"] = "orders-" * 12
    _print_report(report(lost), None)

    assert "orders-" * 12 in re.sub(r"\s", "", capsys.readouterr().out)
