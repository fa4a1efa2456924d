"""Cycles among transactions: who wrote before whom, and who read what.

    places of a partition, in sequence ─▶ edges between neighbours ─▶ islands ─▶ components

Neighbours are enough: before and behind in one log are transitive. A cycle goes back in time at
least once, and all of it lies where edges go back: only these islands are brought to the driver,
and searched there (Sharir, A strong-connectivity algorithm, 1981: forwards, then backwards).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from lab_utils.audit.facts import TRANSACTION, committed_positions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lab_utils.audit.kept_plans import Plans
    from lab_utils.audit.survey import Survey

# The kinds of edges that each anomaly has, in Jepsen's names; the last kind must be among them.
ANOMALIES: Final = {"G0": ("ww",), "G1c": ("ww", "wr"), "G2": ("ww", "wr", "rw")}
SCHEMA: Final = "run STRING, anomaly STRING, path STRING, actors STRING"
# More edges that go back than this are not searched: the driver is a laptop.
EDGES_MAX: Final = 1_000_000
# A shortest circle is looked for through so many edges of a component.
TRIED: Final = 100

Node = tuple[str, str]  # the producer, and the number of its transaction
Edge = tuple[Node, Node, str]


def cycles(written: DataFrame, events: DataFrame, survey: Survey) -> DataFrame:
    """One row a set of transactions that are each before another.

    written  one row a visible record: TRANSACTION, topic, partition, offset, sent_at_ns
    Columns: run, anomaly (one of ANOMALIES), path (a shortest circle, in words), actors.
    """
    found = []
    for run, edges in _edges_that_may_close(_edges(written, events, survey), survey.plans).items():
        for anomaly, kinds in ANOMALIES.items():
            for path in circles(edges, kinds):
                actors = ", ".join(sorted({actor for actor, _ in path}))
                said = " and ".join(f"{number} of {actor}" for actor, number in path)
                found.append((run, anomaly, said, actors))
    return survey.table(events, found, SCHEMA)


def _edges(written: DataFrame, events: DataFrame, survey: Survey) -> DataFrame:
    """One row an edge: run, kind, and of both ends the transaction and the time it began to send.

    A position that a transaction committed is a read: behind the record before it, and before the
    record at it.
    """
    where = ["run", "topic", "partition"]
    rows = written.selectExpr(
        *TRANSACTION, *where[1:], "2 * offset + 1 AS place", "true AS writes", "sent_at_ns AS at_ns"
    )
    if "txn_offsets_sent" in survey.kinds:
        reads = committed_positions(events).selectExpr(
            *TRANSACTION, *where[1:], "2 * position AS place", "false AS writes",
            "asked_at_ns AS at_ns",
        )  # fmt: skip
        rows = rows.unionByName(reads)
    began = f"min(at_ns) OVER (PARTITION BY {', '.join(TRANSACTION)})"
    rows = rows.selectExpr(
        *where, "place", "writes", f"struct(actor, transaction, {began} AS at_ns) AS node"
    ).selectExpr("*", "if(writes, node, NULL) AS writer", "if(writes, NULL, node) AS reader")
    # The one behind is looked for backwards: a frame that ends at the last row is quadratic.
    nearest = (
        "last(writer, true) OVER (PARTITION BY run, topic, partition ORDER BY {0}"
        " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS {1}"
    )
    near = rows.selectExpr(
        "*", nearest.format("place", "earlier"), nearest.format("place DESC", "later")
    )
    edge = "struct('{0}' AS kind, {1} AS one, {2} AS other)"
    edges = (
        f"array({edge.format('ww', 'earlier', 'writer')}, {edge.format('wr', 'earlier', 'reader')},"
        f" {edge.format('rw', 'reader', 'later')})"
    )
    real = "x.one IS NOT NULL AND x.other IS NOT NULL AND x.one <> x.other"
    return near.selectExpr("run", f"inline(filter({edges}, x -> {real}))").distinct()


def _edges_that_may_close(edges: DataFrame, plans: Plans) -> dict[str, list[Edge]]:
    """The edges, by run, within stretches of time that edges which go back cover as a whole."""
    spans = edges.selectExpr(
        "*", "least(one.at_ns, other.at_ns) AS first", "greatest(one.at_ns, other.at_ns) AS last",
        "one.at_ns >= other.at_ns AS is_back",
    )  # fmt: skip
    so_far = "OVER (PARTITION BY run ORDER BY first, last ROWS BETWEEN UNBOUNDED PRECEDING AND"
    before, up_to_here = f"{so_far} 1 PRECEDING)", f"{so_far} CURRENT ROW)"
    by_start = "OVER (PARTITION BY run ORDER BY first RANGE UNBOUNDED PRECEDING)"
    begins = f"is_back AND coalesce(max(goes_back_to) {before} < first, true) AS begins"
    covered = (
        spans.selectExpr("*", "if(is_back, last, NULL) AS goes_back_to")
        .selectExpr("*", begins)
        .selectExpr("*", f"count_if(begins) {up_to_here} AS island")
        .selectExpr("*", "max(goes_back_to) OVER (PARTITION BY run, island) AS island_end")
        .selectExpr("*", f"max(if(is_back, island_end, NULL)) {by_start} AS covered_to")
        .where("covered_to >= last")
    )
    rows = plans.rows(covered.select("run", "kind", "one", "other").limit(EDGES_MAX))
    found: dict[str, list[Edge]] = defaultdict(list)
    for run, kind, one, other in rows:
        found[run].append(((one[0], one[1]), (other[0], other[1]), kind))
    return found


def circles(edges: Iterable[Edge], kinds: Collection[str]) -> Iterator[list[Node]]:
    """A shortest circle of each component that has an edge of the last of these kinds."""
    kept = [edge for edge in edges if edge[2] in kinds]
    follows: dict[Node, set[Node]] = defaultdict(set)
    for one, other, _ in kept:
        follows[one].add(other)
    needed = tuple(kinds)[-1]
    component = {node: number for number, some in enumerate(_components(follows)) for node in some}
    closing: dict[int, list[tuple[Node, Node]]] = defaultdict(list)
    for one, other, kind in kept:
        if kind == needed and component.get(one) == component.get(other, -1):
            closing[component[one]].append((one, other))
    for number in sorted(closing, key=lambda it: min(closing[it])):
        paths = [
            [one, *_path(follows, other, one)[:-1]]
            for one, other in sorted(closing[number])[:TRIED]
        ]
        shortest = min(paths, key=lambda path: (len(path), path))
        first = shortest.index(min(shortest))
        yield shortest[first:] + shortest[:first]


def _path(follows: dict[Node, set[Node]], start: Node, goal: Node) -> list[Node]:
    """A shortest way from one node to another, with both of them."""
    came: dict[Node, Node | None] = {start: None}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        if node == goal:
            break
        for following in sorted(follows.get(node, ())):
            if following not in came:
                came[following] = node
                queue.append(following)
    path = [goal]
    while (before := came[path[-1]]) is not None:
        path.append(before)
    return path[::-1]


def _components(follows: dict[Node, set[Node]]) -> Iterator[list[Node]]:
    """The strongly connected components of more than one node."""
    precedes: dict[Node, set[Node]] = defaultdict(set)
    for one, others in follows.items():
        for other in others:
            precedes[other].add(one)
    seen: set[Node] = set()
    left = [node for root in follows for node in _leaving(root, follows, seen)]
    seen = set()
    for root in reversed(left):
        component = list(_leaving(root, precedes, seen))
        if len(component) > 1:
            yield component


def _leaving(root: Node, follows: dict[Node, set[Node]], seen: set[Node]) -> Iterator[Node]:
    """What is reached and was not seen, each after all that it leads to; without recursion."""
    work: list[tuple[Node, Iterator[Node]]] = [] if root in seen else [(root, iter([root]))]
    while work:
        node, rest = work[-1]
        for following in rest:
            if following not in seen:
                seen.add(following)
                work.append((following, iter(follows.get(following, ()))))
                break
        else:
            work.pop()
            if work:
                yield node
