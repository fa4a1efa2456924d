"""What a line of JSON may hold that Spark's reader does not say, as SQL about the column `line`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lab_utils.errors import LedgerError

# Spark makes no row of it.
BLANK: Final = r"trim(BOTH ' \t\r' FROM line) = ''"
# Spark reads the first object of a line and leaves the rest without a word. A value may hold such
# braces, too, so the whole line is parsed where they are seen: as the only one of an array, and as
# all that is in it.
MORE_THAN_ONE: Final = (
    "((locate('{', line, greatest(locate('}', line), 1)) > 1 OR NOT endswith(rtrim(line), '}')) "
    "AND NOT coalesce(json_array_length('[' || line || ']') = 1"
    " AND json_array_length('[[' || line || '],0]') = 2, false) "
    "AND from_json(line, 'MAP<STRING, STRING>') IS NOT NULL)"
)
# Half of a surrogate pair, as errors="surrogateescape" of Python makes of a byte that is no text:
# Spark reads each as "?", so that texts that differ would become one.
HALF: Final = (
    r"((contains(line, r'\ud') OR contains(line, r'\uD')) AND line RLIKE r'(?<!\\)(\\\\)*("
    r"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F])')"
)
REST_LOST: Final = "more in the line than one event; only the first was read"
TWICE: Final = "twice in a line; only the last was read"
# Of a map Spark gives the first, and of an object people mean the last.
TWICE_IN_DETAIL: Final = (
    "WHEN size(array_distinct(map_keys(detail))) < size(detail) THEN 'a name twice in detail'"
)


def refuse_half_a_pair(halves: Mapping[str, int]) -> None:
    """Raises LedgerError if lines of a file have HALF; `halves` says how many of which file do."""
    for file in sorted(halves):
        raise LedgerError(
            f"{file} has half of a surrogate pair, as \\udcff, in {halves[file]:,} lines: no text "
            "has one, and values that differ would be judged as one. Write bytes that are no text "
            'with errors="backslashreplace", not "surrogateescape".'
        )
