r"""Text for pictures and tables: what came off the wire is shown and never interpreted.

A value or an error text may hold anything. Plotly understands a few tags, a browser all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from textwrap import wrap

LENGTH_LIMIT = 40


def shown(text: object, limit: int = LENGTH_LIMIT) -> str:
    r"""One line of text, control characters as escapes, shortened in the middle.

    >>> shown("order\n3"), shown("a" * 50, 11)
    ('order\\n3', 'aaaaa…aaaaa')
    """
    line = "".join(letter if letter.isprintable() else _escaped(letter) for letter in str(text))
    if len(line) <= limit:
        return line
    return f"{line[: limit // 2]}…{line[-(limit // 2) :]}"


def in_picture(text: object, limit: int = LENGTH_LIMIT) -> str:
    """Text for Plotly: no tag, no formula, no hidden line break.

    >>> in_picture("<b>$x$</b>")
    '&lt;b&gt;&#36;x&#36;&lt;/b&gt;'
    """
    return escape(shown(text, limit), quote=False).replace("$", "&#36;")


def title_lines(sentence: str, width: int = 86) -> str:
    """A sentence as the title of a picture, in lines that fit 900 pixels."""
    return "<br>".join(in_picture(line, width) for line in wrap(shown(sentence, 4 * width), width))


def listed(items: Sequence[str]) -> str:
    """Items as a reader says them.

    >>> listed(["0"]), listed(["0", "1", "2"])
    ('0', '0, 1 and 2')
    """
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def counted(number: int, one: str, many: str = "") -> str:
    """A number and its noun.

    >>> counted(1, "request"), counted(2, "request"), counted(2, "batch", "batches")
    ('1 request', '2 requests', '2 batches')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
