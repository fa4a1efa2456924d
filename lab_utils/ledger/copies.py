"""What is asked of a copy of an order, at its place in a log, as SQL."""

from __future__ import annotations

from typing import Final

# Of a copy that was found in the log: does the log still begin before it?
KEPT: Final = "offset >= coalesce(starts[partition], 0)"
# Of a copy: was it acked before the first power cut, and found there after the last one?
STOOD: Final = (
    f"is_stored AND {KEPT} AND array_max(acked_at_ns) < first_cut_ns AND found_at_ns > last_cut_ns"
)
# Of a copy: does a read_committed reader that came to the end of the log, behind it, pass it over?
HIDDEN: Final = (
    f"is_stored AND NOT is_visible AND NOT superseded AND {KEPT}"
    " AND offset >= coalesce(stable_from[partition], 0)"
    " AND coalesce(offset < settled[partition], false)"
)
SHOWN: Final = (
    "transform(given, x -> struct(x.partition, x.offset, x.actor, x.at_ns, x.consumer_group,"
    f" x.kind, {HIDDEN} AS is_hidden))"
)
# The acks of a place that no copy is there for.
UNHELD: Final = "greatest(acks - if(is_stored, 1, 0), 0)"
# Was it given to somebody from a place where the log does not hold it any more?
READ_AND_GONE: Final = f"(deliveries > 0 AND ({KEPT} OR acks > 0) OR gone > 0) AND NOT is_stored"
# Of the acks of a copy, those that the reader of the log must have found: what was acked later, or
# by a coarse clock at the same time, may have been stored later.
BEFORE_THE_END: Final = (
    "if(coalesce(offset < ends[partition], false), acks,"
    " size(filter(acked_at_ns, x -> x < read_at_ns[partition])))"
)
