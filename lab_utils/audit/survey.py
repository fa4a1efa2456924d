"""The survey: what a ledger has, counted by run, client and partition; small, and on the driver.

It says which findings can be asked, how each client and topic is configured, how far each log was
read, and who reads which topic. The facts are joined with it, and the contracts judge by it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lab_utils.audit.contracts.defaults import UNCLEAN, effective
from lab_utils.audit.facts import POSITIONS, RENAMED, group_positions, sql
from lab_utils.audit.kept_plans import ANEW, Plans
from lab_utils.ledger.acts import (
    ADMINISTERED,
    ANY,
    ASKED,
    COMMITS,
    REFUSED,
    TURNS,
    Act,
    decided,
    in_time,
    not_refused,
    restored,
)
from lab_utils.ledger.topics import LISTS, End, TopicFacts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

# Events that the survey reads one by one: there are as many as clients, topics and partitions.
READ_WHOLE: Final = (
    "(source = 'client' AND kind = 'created') OR (source = 'workload' AND kind = 'topic')"
    " OR (source = 'log' AND kind IN ('end', 'committed'))"
)
# Whose actor matters, and whose partition; others are counted together.
BY_ACTOR: Final = (
    "(source IN ('client', 'fault', 'workload') OR source = 'log' AND kind IN ('record', 'end')"
    " OR kind IN ('power_cut', 'started') OR api IN ('OffsetCommit', 'TxnOffsetCommit'))"
)
BY_PARTITION: Final = "kind IN ('delivered', 'assigned', 'sought', 'acked', 'committed')"
# By what a client of the run that records what it does is known.
RECORDS: Final = ("created", "assigned", "delivered", "committed")
# That a consumer was given a partition, or moved.
PLACINGS: Final = ("assigned", "revoked", "lost", "sought")
# What names orders by key and value.
NAMES: Final = ("sent", "acked", "delivered", "record", "visible")
READS: Final = ("assigned", "committed", "delivered", "sought")
UNKNOWN_GROUP: Final = "the group of "
REPLICATED: Final = "partition"
EPOCHS: Final = "epochs"
STOPS: Final = "stops"
BEHIND: Final = "behind"
ONE_ID: Final = "one_id"
IN_TRANSACTIONS: Final = "in_transactions"
# By whom a group's position is changed: its consumer, or a producer's transaction.
POSITIONED: Final = {("client", it) for it in ("committed", "txn_offsets_sent", "sought")}

# By role and client, a list.
BY_CLIENT: Final[Any] = partial(defaultdict, LISTS)

# What a survey has for each run, and where in the key that is.
RUN_IN_KEY: Final = {
    "clients": 0, "topics": 0, "counts": 0, "readings": 0, "since": 1, "over": 1,
}  # fmt: skip

Topic = tuple[str, str | None]
Client = tuple[str, str]

TOPICS_SCHEMA: Final = (
    "run STRING, topic STRING, all_drained BOOLEAN, drained ARRAY<BIGINT>,"
    " ends MAP<BIGINT, BIGINT>, starts MAP<BIGINT, BIGINT>, read_at_ns MAP<BIGINT, BIGINT>,"
    " settled MAP<BIGINT, BIGINT>, read_committed MAP<BIGINT, BIGINT>, is_transactional BOOLEAN,"
    " tells_visible BOOLEAN, is_compacted BOOLEAN, stable_from MAP<BIGINT, BIGINT>,"
    " restored_at_ns BIGINT, first_cut_ns BIGINT, last_cut_ns BIGINT,"
    " consumers ARRAY<STRUCT<name: STRING, actors: ARRAY<STRING>, began_at_ns: BIGINT,"
    " first: MAP<BIGINT, BIGINT>, furthest: MAP<BIGINT, BIGINT>, resumed: MAP<BIGINT, BIGINT>,"
    " ahead: MAP<BIGINT, ARRAY<STRUCT<first: BIGINT, next: BIGINT>>>,"
    " sought: MAP<BIGINT, ARRAY<STRUCT<first: BIGINT, next: BIGINT>>>,"
    " reread: ARRAY<BIGINT>, partitions: ARRAY<BIGINT>>>,"
    " bookmarks ARRAY<STRUCT<name: STRING, is_known: BOOLEAN, works: BOOLEAN,"
    " at: MAP<BIGINT, BIGINT>, since: MAP<BIGINT, BIGINT>, told: MAP<BIGINT, BIGINT>>>"
)
GROUPS_SCHEMA: Final = "run STRING, topic STRING, consumer_group STRING"
MEMBERS_SCHEMA: Final = (
    "run STRING, actor STRING, consumer_group STRING, starts ARRAY<BIGINT>, reads_all BOOLEAN"
)
STARTS_SCHEMA: Final = "run STRING, actor STRING, starts ARRAY<BIGINT>"


@dataclass(slots=True)
class Survey:
    """What a ledger has.

    kinds    the kinds of events, `partition` only where a topic has several replicas; `epochs`
             where a log has batches or markers of several, `stops` where a read_committed reader
             stops before the end of one, `behind` where a group may be behind what it committed,
             `one_id` where several clients have one transactional.id, `in_transactions` where an
             order was sent in one
    clients  (run, actor) -> the settings it was created with, each time that it was
    starts   role -> (run, actor) -> when a client of this role and name was created
    since    what was done, run, and topic or broker -> when: a broker lost its power (`power_cut`),
             or an administrator asked for it and was not refused, to delete the topic (`deletes`),
             positions of its groups (`forgets`) or records (`trims`), or to change positions
             (`repositions`, of a client only when first); the topic is NULL if none is named
    over     the same -> when that was over: the broker had started, the topic was created again
    readings run, topic, partition and reader -> when it came to the end of the log, each time
    counts   (run, source, actor, kind) -> how many
    plans    how Spark is asked about this ledger
    """

    kinds: frozenset[str] = frozenset()
    clients: dict[Client, list[dict[str, str]]] = field(default_factory=dict)
    starts: dict[str | None, dict[Client, list[int]]] = field(default_factory=BY_CLIENT)
    topics: dict[Topic, TopicFacts] = field(default_factory=lambda: defaultdict(TopicFacts))
    counts: Counter[tuple[str, str, str | None, str]] = field(default_factory=Counter)
    since: dict[tuple[str, str, str | None], list[int]] = field(default_factory=LISTS)
    over: dict[tuple[str, str, str | None], list[int]] = field(default_factory=LISTS)
    readings: dict[tuple[str, str, int, str], list[int]] = field(default_factory=LISTS)
    plans: Plans = ANEW

    @property
    def has_compacted(self) -> bool:
        """Is any topic compacted?"""
        return any(it.is_compacted for it in self.topics.values())

    @property
    def is_read_again(self) -> bool:
        """Did a reader come to the end of a log more than once?"""
        return max(map(len, self.readings.values()), default=0) > 1

    @property
    def is_restored(self) -> bool:
        """Was all that may take a log away over, in a run or in one of its topics?"""
        return any(it < ANY for it in restored(self.since, self.over).values())

    @property
    def has_transactions(self) -> bool:
        """Was any order sent in a transaction?"""
        return IN_TRANSACTIONS in self.kinds

    @property
    def some_read_all(self) -> bool:
        """Is any consumer read_uncommitted, of a topic that may hold what others are not given?"""
        return any(
            self.reads_all(run, actor)
            for (run, _), it in self.topics.items() if it.is_transactional
            for actors in it.actors.values() for actor in actors
        )  # fmt: skip

    def by_run(self) -> dict[str, Survey]:
        """The same of each run by itself, so that what is asked of one does not look at all."""
        found: dict[str, Survey] = defaultdict(lambda: Survey(self.kinds, plans=self.plans))
        for role, its in self.starts.items():
            for client, at in its.items():
                found[client[0]].starts[role][client] = at
        for name, place in RUN_IN_KEY.items():
            for key, it in getattr(self, name).items():
                getattr(found[key[place]], name)[key] = it
        return found

    def actors(self, run: str, kind: str) -> set[str | None]:
        """Who of a run has events of this kind."""
        return {actor for of, _, actor, it in self.counts if (of, it) == (run, kind)}

    def says(self, run: str, actor: str | None, kinds: Iterable[str]) -> bool:
        """Does this client say itself that it did one of these?"""
        return any((run, "client", actor, kind) in self.counts for kind in kinds)

    def group(self, run: str, actor: str) -> str:
        """The group of a consumer; one of its own if the ledger does not know it."""
        *_, last = self.clients.get((run, actor), [{}])
        return last.get("group.id") or f"{UNKNOWN_GROUP}{actor}"

    def reads_all(self, run: str, actor: str) -> bool:
        """Is a consumer of this name given what was aborted, too, and what is still open?"""
        its = [it for it in self.clients.get((run, actor), ()) if it.get("role") == "consumer"]
        isolation = {effective(it)["isolation.level"] for it in its}
        return isolation == {"read_uncommitted"}

    def lives(self, run: str, role: str) -> list[tuple[str, dict[str, str]]]:
        """The clients of a run in a role, each with the settings of each time it was created."""
        return [
            (actor, settings)
            for (of, actor), lives in self.clients.items()
            for settings in lives
            if of == run and settings.get("role") == role
        ]

    def of_one_id(self) -> list[tuple[str, str, str]]:
        """The clients of a run that have one transactional.id: run, actor, id.

        Nothing is known of who was created again, and of a run in which the coordinator may have
        lost what it knew.
        """
        forgot = {run for what, run, _ in self.since if what == "power_cut"} | {
            run for (run, _), it in self.topics.items()
            if any(life.get(UNCLEAN, "false") != "false" for life in it.lives)
        }  # fmt: skip
        ids = [
            (run, actor, lives[0]["transactional.id"])
            for (run, actor), lives in self.clients.items()
            if len(lives) == 1 and "transactional.id" in lives[0] and run not in forgot
        ]
        holders = Counter((run, name) for run, _, name in ids)
        return sorted(it for it in ids if holders[it[0], it[2]] > 1)

    def are_several(self, run: str, actor: str, role: str) -> bool:
        """Are there several producers of this name, or consumers of several groups?

        A consumer that starts again in its group is assigned its partitions again.
        """
        if role == "producer":
            return len(self.starts[role].get((run, actor), ())) > 1
        lives = self.clients.get((run, actor), [])
        return len({it.get("group.id") for it in lives if it.get("role") == role}) > 1

    def by_start(self, events: DataFrame) -> DataFrame:
        """Events with each transaction named by its number and the start of its producer.

        A program that is started again numbers its transactions anew: 1, then 1 (start 2).
        """
        again = [(*it, at) for it, at in self.starts["producer"].items() if len(at) > 1]
        if not again:
            return events
        rows = events.join(self.table(events, again, STARTS_SCHEMA), ["run", "actor"], "left")
        return rows.selectExpr(*(f"{RENAMED} AS detail" if it == "detail" else it
                                 for it in events.columns))  # fmt: skip

    def topics_frame(self, events: DataFrame) -> DataFrame:
        """One row a topic; columns as in TOPICS_SCHEMA."""
        back = restored(self.since, self.over)
        rows = [
            _topic_row(*key, it, (
                max((back[at] for at in (key, (key[0], None)) if at in back), default=None),
                *self._cuts(key[0], it),
            ))
            for key, it in self.topics.items()
        ]  # fmt: skip
        return self.table(events, rows, TOPICS_SCHEMA)

    def _cuts(self, run: str, topic: TopicFacts) -> tuple[int | None, int | None]:
        """The first and the last power cut that may explain what its consumers were not given."""
        if not any(what == "power_cut" for what, *_ in self.since):
            return None, None
        until = topic.last_look(is_of_log=False)
        done = in_time(self.since, self.over, run, topic.first_send, until)
        times = [at for (what, *_), those in done.items() if what == "power_cut" for at in those]
        return min(times, default=None), max(times, default=None)

    def table(self, events: DataFrame, rows: list[tuple[Any, ...]], schema: str) -> DataFrame:
        """A small table beside the events, of what this process knows."""
        return self.plans.table(events.sparkSession, rows, schema)

    def groups_frame(self, events: DataFrame) -> DataFrame:
        """One row a topic and a group that reads it; columns as in GROUPS_SCHEMA."""
        rows = [(*topic, group) for topic, it in self.topics.items() for group in sorted(it.actors)]
        return self.table(events, rows, GROUPS_SCHEMA)

    def of_groups(self, positions: DataFrame, events: DataFrame) -> DataFrame:
        """Rows with the consumer_group of their for_group: each that may be it, if that is unknown.

        A for_group that is not recorded may be any group that reads the topic; any for_group may be
        that of readers of whom no group is known.
        """
        return positions.join(self.groups_frame(events), ["run", "topic"]).where(
            "for_group IS NULL OR for_group = consumer_group"
            f" OR startswith(consumer_group, '{UNKNOWN_GROUP}')"
        )

    def members_frame(self, events: DataFrame) -> DataFrame:
        """One row a consumer that was given something or committed; as in MEMBERS_SCHEMA."""
        given = {
            (run, actor) for run, source, actor, kind in self.counts
            if actor is not None and source == "client" and kind in POSITIONS
        }  # fmt: skip
        starts = self.starts["consumer"]
        rows = [(*it, self.group(*it), starts.get(it), self.reads_all(*it)) for it in sorted(given)]
        return self.table(events, rows, MEMBERS_SCHEMA)


def survey(events: DataFrame, plans: Plans = ANEW) -> Survey:
    """Count a ledger, and read what says how it came about; one query."""
    rows = plans.rows(counted(events).unionByName(_read_whole(events), allowMissingColumns=True))
    rows.sort(key=lambda row: (row["at_ns"] or 0, row["offset"] or 0))
    found = Survey(plans=plans)
    for row in rows:
        if row["detail"] is None:
            _count(found, row)
        else:
            _read(found, row)
    _administer(found, rows)
    for row in rows:
        if row["detail"] is None and row["source"] == "client":
            _consume(found, row)
    for topic in found.topics.values():
        topic.hold_told()
    found.kinds = frozenset(kinds_of(found))
    # Where a group came is known of those that were given something, or committed.
    is_read = any(it.actors or it.told for it in found.topics.values())
    if is_read and POSITIONED & {(by, it) for _, by, _, it in found.counts}:
        for row in plans.rows(group_positions(found.by_start(events), found)):
            topic, group = found.topics[row["run"], row["topic"]], row["consumer_group"]
            if row["committed"] and row["committed"][0] >= (row["woke"] or -ANY):
                topic.committed[group][row["partition"]] = tuple(row["committed"])
            topic.highest[group][row["partition"]] = row["highest"] or 0
            topic.went_back |= row["is_behind"]
            topic.ahead[group][row["partition"]] = [tuple(each) for each in row["passed"] or ()]
            topic.pass_over(group, row["partition"], row["moves"] or ())
    found.kinds = frozenset(kinds_of(found))
    return found


def counted(events: DataFrame) -> DataFrame:
    """How many events of each kind, by client and partition where these matter."""
    rows = events.selectExpr(
        "run", "source", "kind", "at_ns", "topic", "offset", "producer_id", "producer_epoch",
        "detail", "api", "fate", "error", "key", "value",
        f"if({BY_ACTOR}, actor, NULL) AS actor",
        f"if(source = 'client' AND {BY_PARTITION} OR kind = '{REPLICATED}', partition, NULL)"
        " AS partition",
    )  # fmt: skip
    return sql(
        rows, ["run", "source", "kind", "topic", "actor", "partition"],
        "count(*) AS count", "max(offset) AS offset", "max(at_ns) AS last_at_ns",
        "min(offset) AS first_offset", "max(struct(at_ns, offset)) AS latest",
        "min(producer_id) AS first_id", "max(producer_id) AS last_id",
        "min(producer_epoch) AS first_epoch", "max(producer_epoch) AS last_epoch",
        f"count_if({ASKED} AND {COMMITS}) - count_if({REFUSED} AND {COMMITS}) AS commits",
        f"min(if({ASKED} AND {COMMITS}, at_ns, NULL)) AS commits_since",
        f"collect_list({ADMINISTERED}) AS administered",
        f"collect_list(if({TURNS}, at_ns, NULL)) AS turns", "min(at_ns) AS first_at_ns",
        "count_if(kind = 'sought' AND detail['to'] = 'end') AS to_the_end",
        "count_if(kind = 'sought' AND detail['to'] = 'beginning') AS to_the_beginning",
        "count_if(kind = 'marker' OR detail['transactional'] IS NOT NULL"
        " OR kind = 'sent' AND detail['transaction'] IS NOT NULL) AS in_transactions",
        "count(key) AS keyed", "count(value) AS valued",
        f"collect_set(if(kind = '{REPLICATED}', struct(at_ns, detail['isr'] AS isr,"
        " detail['elr'] AS elr, detail['replicas'] AS replicas), NULL)) AS decisions",
        "CAST(NULL AS BIGINT) AS at_ns", "CAST(NULL AS MAP<STRING, STRING>) AS detail",
    )  # fmt: skip


def _read_whole(events: DataFrame) -> DataFrame:
    return events.where(READ_WHOLE).selectExpr(
        "run", "source", "kind", "topic", "actor", "partition", "offset", "at_ns",
        "coalesce(detail, map()) AS detail",
    )  # fmt: skip


def _count(found: Survey, row: Row) -> None:
    found.counts[row["run"], row["source"], row["actor"], row["kind"]] += row["count"]
    is_of_broker = row["source"] == "broker" or row["kind"] == "power_cut"
    turned = "power_cut" if is_of_broker else "deletes"  # that is over
    is_over = row["kind"] in ("started", "response")
    for of in [found.over if is_over else found.since] if row["turns"] else ():
        of[turned, row["run"], row["actor" if is_of_broker else "topic"]] += row["turns"]
    if row["topic"] is None:
        return
    topic = found.topics[row["run"], row["topic"]]
    said = (row["source"], row["kind"])
    # A transaction that is still open has batches, and no marker yet.
    topic.tells_visible |= said[0] == "log" and (said[1] == "visible" or row["in_transactions"] > 0)
    topic.said_by[row["kind"]].add(row["actor"])
    if row["source"] == "client" and row["kind"] in ("sent", "acked", "delivered"):
        topic.begun_at_ns = min(topic.begun_at_ns, row["first_at_ns"])
    if row["kind"] in NAMES:
        named = Counter(every=row["count"], key=row["keyed"], value=row["valued"])
        for actor in {None, row["actor"] if row["source"] == "client" else None}:
            topic.named[actor].setdefault(row["kind"], Counter()).update(named)
    if said == ("client", "acked") and row["partition"] is not None:
        topic.acked_in.add(row["partition"])
    topic.was_sent_in_transactions |= said == ("client", "sent") and row["in_transactions"] > 0
    if said == ("log", "batch") and row["first_id"] is not None:
        topic.producer_ids = (row["first_id"], row["last_id"])
    if row["decisions"] and row["partition"] is not None:
        topic.decisions[row["partition"]] += (decided(*it) for it in row["decisions"])
    if row["source"] == "log" and row["kind"] in ("batch", "marker"):
        topic.epochs |= {row["first_epoch"], row["last_epoch"]} - {None}


def _administer(found: Survey, rows: Iterable[Row]) -> None:
    """When an administrator did what; a request and its refusal are of different rows."""
    acts: dict[Act, dict[bool, list[int]]] = defaultdict(lambda: {False: [], True: []})
    commits: Counter[Act] = Counter()
    for row in rows:
        for what, at_ns, is_refused in row["administered"] or ():
            acts[what, row["run"], row["topic"]][is_refused].append(at_ns)
        if row["commits"] and not found.says(row["run"], row["actor"], RECORDS):
            act = "repositions", row["run"], row["topic"]
            commits[act] += row["commits"]
            found.since[act] += [row["commits_since"]] if row["commits"] > 0 else []
    for act, count in commits.items():
        if count <= 0:  # each was refused
            del found.since[act]
    for act, them in acts.items():
        if done := not_refused(them[False], them[True]):
            found.since[act] += done


def _read(found: Survey, row: Row) -> None:
    # Other libraries have the same names with an underscore.
    named = {name.strip().replace("_", "."): text for name, text in row["detail"].items()}
    said = row["detail"] if row["source"] == "log" else named
    detail = {name: text for name, text in said.items() if text is not None}
    if row["source"] == "client":
        found.clients.setdefault((row["run"], row["actor"]), []).append(detail)
        found.starts[detail.get("role")][row["run"], row["actor"]].append(row["at_ns"])
        return
    if row["topic"] is None:
        return
    topic = found.topics[row["run"], row["topic"]]
    if row["kind"] == "topic":
        topic.settings = topic.settings | detail
        # What is named for the first time was so before.
        lives = [*(detail | it for it in topic.lives), topic.settings]
        topic.lives = [it for at, it in enumerate(lives, 1) if it not in lives[at:]]
    elif row["kind"] == "end" and row["partition"] is not None:
        reader = row["run"], row["topic"], row["partition"], row["actor"]
        found.readings[reader] += [row["at_ns"]] * (detail.get("drained") == "true")
        for ends, said in ((topic.ends, "drained"), (topic.stable, "committed_drained")):
            if ends is topic.ends or detail.keys() & {said, "last_stable"}:
                end, before = _end(row, detail, said), ends.get(row["partition"])
                if before is None or end.drained >= before.drained:
                    ends[row["partition"]] = end
    elif row["kind"] == "committed" and detail.get("when") == "end" and row["offset"] is not None:
        topic.bookmarks[row["actor"]][row["partition"]] = row["offset"]
        lowest = topic.lowest[row["actor"]]
        lowest[row["partition"]] = min(lowest.get(row["partition"], ANY), row["offset"])


def _end(row: Row, detail: Mapping[str, str], said: str) -> End:
    stable = detail.get("last_stable")
    return End(
        detail.get(said) == "true", row["at_ns"], int(detail.get("start", 0)), row["offset"],
        int(stable) if stable is not None else None,
    )  # fmt: skip


def _consume(found: Survey, row: Row) -> None:
    """Who was assigned or given something of a topic, and how far each group came."""
    if row["kind"] not in READS:
        return
    group = found.group(row["run"], row["actor"])
    topic = found.topics[row["run"], row["topic"]]
    topic.began[group] = min(topic.began.get(group, ANY), row["first_at_ns"])
    if row["kind"] == "committed":
        if row["partition"] is not None:
            told, latest = topic.told[group], tuple(row["latest"])
            told[row["partition"]] = max(told.get(row["partition"], latest), latest)
        return
    if row["kind"] == "sought":
        # Where the bookmark is, or at the beginning, nothing is passed over by choice.
        if row["offset"] is not None or row["to_the_end"]:
            topic.sought[group].setdefault(row["partition"], [])
        if row["partition"] in topic.sought[group] or row["to_the_beginning"]:
            topic.reread[group].add(row["partition"])
    if row["kind"] == "assigned":
        topic.subscribed.add(group)
    elif row["partition"] is not None:
        topic.placed[group].add(row["partition"])
    topic.actors[group].add(row["actor"])
    if row["kind"] == "delivered" and row["offset"] is not None:
        low, high, at = topic.given[group].get(row["partition"], (ANY, 0, 0))
        given = min(low, row["first_offset"]), max(high, row["offset"]), max(at, row["last_at_ns"])
        topic.given[group][row["partition"]] = given


def kinds_of(found: Survey) -> Iterator[str]:
    """The kinds of events, and what else findings are asked for, as Survey has it."""
    topics, kinds = found.topics.values(), {kind for *_, kind in found.counts}
    replicated = any(topic.settings.get("replicas", "1") != "1" for topic in topics)
    yield from (kind for kind in kinds if kind != REPLICATED or replicated)
    if any(len(topic.epochs) > 1 for topic in topics):
        yield EPOCHS
    if any(any(topic.stops()) for topic in topics):
        yield STOPS
    # A transaction may commit positions of a group of which no member is known.
    unknown = ANY if "txn_offsets_sent" in kinds else 0
    if any(topic.may_be_behind(unknown) for topic in topics):
        yield BEHIND
    if found.of_one_id():
        yield ONE_ID
    if any(topic.was_sent_in_transactions for topic in topics):
        yield IN_TRANSACTIONS


def _topic_row(
    run: str, topic: str | None, it: TopicFacts, cuts: tuple[int | None, ...]
) -> tuple[Any, ...]:
    consumers = [
        (group, sorted(actors), it.began[group],
         {number: at[0] for number, at in it.given[group].items()},
         {number: at[1] for number, at in it.given[group].items()},
         dict(it.resumed(group)), dict(it.ahead[group]), dict(it.sought[group]),
         sorted(it.reread[group]), None if group in it.subscribed else sorted(it.placed[group]))
        for group, actors in sorted(it.actors.items())
    ]  # fmt: skip
    bookmarks = [
        (
            group,
            group in it.actors,
            it.works(group),
            dict(at),
            dict(it.since[group]),
            {number: latest[1] for number, latest in it.told[group].items()},
        )
        for group, at in sorted(it.bookmarks.items())
    ]
    return (
        run, topic, it.all_drained,
        sorted(number for number, end in it.ends.items() if end.drained),
        {number: end.offset for number, end in it.ends.items() if end.offset is not None},
        {number: end.start for number, end in it.ends.items() if end.start},
        {number: end.at_ns for number, end in it.ends.items()},
        {number: end.offset for number, end in it.stable.items() if end.settled},
        {number: end.at_ns for number, end in it.stable.items() if end.read_committed},
        it.is_transactional, it.tells_visible, it.is_compacted,
        {number: end.start for number, end in it.stable.items()}, *cuts, consumers,
        bookmarks,
    )  # fmt: skip
