"""./lab class: what a class understood and believed, from the results of one or several gradings.

    OUT/submissions/*.json ─▶ lines ─▶ submissions ─┬─▶ answers ──▶ items  mistakes  stuck  learners
                                                    └─▶ beliefs ──▶ predictions

Spark does the work: Python copies lines, and reads tables that are as long as the labs, not as the
class. Each table is Parquet beside the page. A learner has a pseudonym, unless names are asked for.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from lab_utils.audit.ledgers import literal
from lab_utils.audit.session import own_spark
from lab_utils.errors import BadArgument
from lab_utils.folders import put, refuse_what_is_not_ours
from lab_utils.gradebook.roster import spelled
from lab_utils.grading.handed_in import handed_out_answers
from lab_utils.grading.records import files, make_folder, nonce_of, write_whole
from lab_utils.grading.results import PASS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What is read of a submission's file. All else stays where it is.
COLUMNS: Final = (
    "path", "lab", "status", "learner", "handed_in", "graded_at", "points", "possible",
    "worked_s", "items", "predictions", "earlier",
)  # fmt: skip
ITEM_COLUMNS: Final = ("item", "title", "status", "points", "possible", "reason", "hint")
SCHEMA: Final = """
    path STRING, lab STRING, status STRING, learner STRING, handed_in STRING,
    graded_at STRING, points DOUBLE, possible DOUBLE, worked_s MAP<STRING, DOUBLE>,
    items ARRAY<STRUCT<item: STRING, title: STRING, status: STRING, points: DOUBLE,
                       possible: DOUBLE, reason: STRING, hint: STRING>>,
    predictions ARRAY<STRUCT<cell: STRING, where: STRING, question: STRING, predicted: STRING,
                             observed: STRING>>,
    earlier ARRAY<STRUCT<points: DOUBLE>>
"""
NO_ANSWER: Final = ("there is no answer yet.", "the answer cell is missing.")
# So many bytes in a file for Spark, so that it reads several at once.
PART: Final = 32 * 2**20
# How many of the commonest mistakes of an item, and of the learners who have least, are shown.
MISTAKES: Final = 3
LEARNERS: Final = 20
# What most of the class solves: who does not is worth a look.
SOLVED_BY_MOST: Final = 0.7
PAGE: Final = "class.html"
MADE: Final = (
    "submissions", "answers", "beliefs", "items", "mistakes", "labs", "predictions", "stuck",
    "learners", PAGE,
)  # fmt: skip
UNFINISHED: Final = ".class-"

BLANK: Final = f"it.reason IN ({', '.join(repr(reason) for reason in NO_ANSWER)})"
# Two reasons are one mistake if they differ in numbers, in names with numbers, and in quotations.
MISTAKE: Final = r"""
    if(it.hint LIKE 'Likely: %', substring_index(substr(it.hint, 9), '\n', 1),
       substr(regexp_replace(regexp_replace(it.reason, '\'[^\']*\'|"[^"]*"', '…'),
                             '\\S*\\d\\S*', '…'), 1, 160))
"""
# What is kept of an item: of its texts the mistake alone, of which there are few.
ITEMS: Final = f"""
    transform(filter(items, it -> it.status <> 'INFRASTRUCTURE'), it -> named_struct(
        'item', it.item, 'title', it.title, 'status', it.status, 'points', it.points,
        'possible', it.possible, 'is_blank', {BLANK},
        'mistake', if(it.status = 'PASS' OR {BLANK}, NULL, {MISTAKE}))) AS items
"""


@dataclass(frozen=True, slots=True)
class Understood:
    """What the page shows: how much was read, and the first rows of each table."""

    submissions: int
    learners: int
    tables: dict[str, list[dict[str, Any]]]


def understand(
    outs: Sequence[Path],
    out: Path,
    *,
    names: bool = False,
    say: Callable[[str], object] = lambda _: None,
) -> Understood:
    """Analyse what is in these folders, and write the tables and the page to `out`.

    Raises BadArgument where there is nothing, or where something else would be written over, and
    StageError when Spark cannot do it.
    """
    from lab_utils.gradebook.class_page import page

    refuse_what_is_not_ours(out, MADE)
    make_folder(out)
    for left in out.glob(f"{UNFINISHED}*"):  # of one that was killed
        shutil.rmtree(left, ignore_errors=True)
    place = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=out)).absolute()
    try:
        say("Reading the submissions")
        size = _lines(outs, place / "lines")
        secret = "".join(sorted(map(nonce_of, outs))) or secrets.token_hex()
        say("Starting Spark")
        with own_spark(size, "class") as spark:
            say("Analysing")
            lines = spark.read.schema(SCHEMA).json(literal(f"file://{place}/lines"))
            found = analyse(spark, lines, f"file://{place}", None if names else secret)
        write_whole(place / PAGE, page(found))
        put(place, out, MADE)
        return found
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _lines(outs: Sequence[Path], folder: Path) -> int:
    """Copy what is analysed of all submissions, a line each, into a few files; return their size.

    A file for each of 100,000 submissions costs Spark more to open than to read.
    """
    folder.mkdir(mode=0o700)
    size = 0
    for number, part in enumerate(_parts(it for out in outs for it in files(out))):
        (folder / f"{number}.jsonl").write_bytes(part)
        size += len(part)
    if not size:
        named = ", ".join(map(str, outs))
        raise BadArgument(
            f"there is no submission in {named}. Name what ./lab grade wrote to with --out."
        )
    return size


def _parts(files: Iterator[Path]) -> Iterator[bytes]:
    part = bytearray()
    for file in files:
        part += _line(file)
        if len(part) >= PART:
            yield bytes(part)
            part.clear()
    if part:
        yield bytes(part)


def _line(file: Path) -> bytes:
    """What is analysed of a submission: half of its file is evidence. Nothing of what is none.

    Some answer cells are handed out with code that runs: left as it was, it is nobody's answer.
    """
    with suppress(ValueError, KeyError, TypeError):
        columns = orjson.loads(file.read_bytes())
        columns["learner"] = spelled(columns["learner"] or columns["name"])
        handed_out = handed_out_answers(columns["lab"]) if columns["lab"] else {}
        untouched = dict(columns["answers"].items() & handed_out.items())
        columns["items"] = [{name: it[name] for name in ITEM_COLUMNS} for it in columns["items"]]
        for it in columns["items"]:
            if it["item"] in untouched and it["status"] != PASS:
                it |= {"reason": NO_ANSWER[0], "hint": None}
        return orjson.dumps({name: columns[name] for name in COLUMNS}) + b"\n"
    return b""


def analyse(spark: SparkSession, lines: DataFrame, place: str, secret: str | None) -> Understood:
    """Write each table below `place`, a URL that Spark knows, and return what the page shows.

    `secret` is what pseudonyms are made with; without it learners have their names.
    """

    def kept(name: str, rows: DataFrame) -> DataFrame:
        rows.write.mode("overwrite").parquet(f"{place}/{name}")
        return spark.read.parquet(literal(f"{place}/{name}"))

    submissions = kept("submissions", _submissions(lines, secret))
    answers = kept("answers", _answers(submissions))
    # One row for each learner and question of a prediction.
    beliefs = kept("beliefs", submissions.selectExpr("learner", "lab", "inline(predictions)"))
    items = kept("items", _items(answers))
    mistakes = kept("mistakes", _mistakes(answers)).where(f"place <= {MISTAKES}")
    shown = {
        "labs": kept("labs", _labs(submissions)).orderBy("lab"),
        "items": items.orderBy("lab", "item"),
        "mistakes": mistakes.orderBy("lab", "item", "place"),
        "predictions": kept("predictions", _predictions(beliefs)).orderBy(
            "right", "lab", "cell", "question"
        ),
        "stuck": kept("stuck", _stuck(answers)).orderBy("lab", "item"),
        "learners": kept("learners", _learners(submissions, items))
        .orderBy("share", "learner")
        .limit(LEARNERS),
    }
    first = {name: [row.asDict() for row in rows.collect()] for name, rows in shown.items()}
    ((count, learners),) = submissions.selectExpr("count(*)", "count(DISTINCT learner)").collect()
    return Understood(count, learners, first)


def _submissions(lines: DataFrame, secret: str | None) -> DataFrame:
    """The last graded submission of each learner for each lab.

    A pseudonym is made with the nonce of a grading, which only a teacher has: without it nobody
    finds the name by trying all.
    """
    from pyspark.sql.functions import col, concat, lit, sha2, substring

    whose = lines.where("status = 'graded'").selectExpr(
        "lab", "points", "possible", "worked_s", "predictions", "handed_in", "graded_at", "path",
        "learner AS whose", "size(earlier) AS regraded", ITEMS,
    )  # fmt: skip
    place = (
        "row_number() OVER (PARTITION BY lab, whose "
        "ORDER BY handed_in DESC, graded_at DESC, path DESC) AS place"
    )
    pseudonym = concat(
        lit("learner "), substring(sha2(concat(lit(secret), col("whose")), 256), 1, 10)
    )
    last = whose.selectExpr("*", place).where("place = 1")
    return last.withColumn("learner", col("whose") if secret is None else pseudonym).selectExpr(
        "learner", "lab", "points", "possible", "worked_s", "items", "predictions", "regraded"
    )  # fmt: skip


def _answers(submissions: DataFrame) -> DataFrame:
    """One row for each learner and item: what it is worth, the rest of the lab, how it ended."""
    each = submissions.selectExpr(
        "learner", "lab", "points AS lab_points", "possible AS lab_possible", "worked_s",
        "inline(items)",
    )  # fmt: skip
    return each.selectExpr(
        "learner", "lab", "item", "title", "status", "points", "possible", "is_blank", "mistake",
        "points / possible AS share",
        "(lab_points - points) / nullif(lab_possible - possible, 0) AS rest",
        "worked_s[item] AS worked_s",
    )  # fmt: skip


def _items(answers: DataFrame) -> DataFrame:
    """How hard each item is, and how well it tells who knows the rest of the lab.

    facility        the share of the points that the class has: Moodle's facility index
    discrimination  the correlation of an item with the rest of its lab; below 0.2 it tells little
    """
    return answers.groupBy("lab", "item").agg(
        *_columns(
            "first(title) AS title",
            "count(*) AS answers",
            "avg(share) AS facility",
            "if(stddev_pop(share) > 0 AND stddev_pop(rest) > 0, corr(share, rest), NULL)"
            " AS discrimination",
            "avg(int(status = 'PASS')) AS passed",
            "avg(int(status = 'FAIL' AND NOT is_blank)) AS failed",
            "avg(int(status = 'INCONCLUSIVE' AND NOT is_blank)) AS inconclusive",
            "avg(int(is_blank)) AS blank",
            "count(worked_s) AS timed",
            "percentile_approx(worked_s, 0.5) / 60 AS minutes",
            "percentile_approx(worked_s, 0.9) / 60 AS minutes_of_the_slowest_tenth",
        )
    )


def _mistakes(answers: DataFrame) -> DataFrame:
    """What went wrong with an item, the commonest first, among those who gave a wrong answer."""
    counted = answers.where("mistake IS NOT NULL").groupBy("lab", "item", "mistake").count()
    of_item = "OVER (PARTITION BY lab, item)"
    return counted.selectExpr(
        "lab", "item", "mistake", "count AS learners", f"count / sum(count) {of_item} AS share",
        "row_number() OVER (PARTITION BY lab, item ORDER BY count DESC, mistake) AS place",
    )  # fmt: skip


def _predictions(beliefs: DataFrame) -> DataFrame:
    """What the class expected, what happened, and the commonest belief that was wrong.

    What happened is what a learner's own notebook shows, else what most notebooks show.
    """
    of_question = "PARTITION BY lab, cell, question"
    known = beliefs.selectExpr("*", f"mode(observed) OVER ({of_question}) AS happened")
    judged = known.selectExpr("*", "predicted = coalesce(observed, happened) AS is_right")
    counted = judged.groupBy("lab", "cell", "question", "predicted").agg(
        *_columns("first(where) AS where", "first(happened) AS happened", "count(*) AS learners",
                  "count_if(is_right) AS right", "count_if(NOT is_right) AS wrong")
    )  # fmt: skip
    return counted.groupBy("lab", "cell", "question").agg(
        *_columns(
            "first(where) AS where",
            "first(happened) AS happened",
            "sum(learners) AS learners",
            "if(first(happened) IS NULL, NULL, sum(right) / sum(learners)) AS right",
            "max_by(predicted, struct(learners, predicted)) AS commonest",
            "max(learners) / sum(learners) AS commonest_share",
            "max_by(predicted, struct(wrong, predicted)) FILTER (WHERE wrong > 0) AS believed",
            "max(wrong) / sum(learners) AS believed_share",
        )
    )


def _stuck(answers: DataFrame) -> DataFrame:
    """At which item of a lab learners are stuck: the first that they have not passed.

    stopped  of those, the share that answered nothing from there on
    """
    opened = answers.groupBy("lab", "learner").agg(
        *_columns(
            "min(if(status <> 'PASS', item, NULL)) AS item",
            "max(if(NOT is_blank, item, NULL)) AS last_answered",
        )
    )
    counted = opened.groupBy("lab", "item").agg(
        *_columns("count(*) AS learners", "avg(int(item > coalesce(last_answered, ''))) AS stopped")
    )
    shares = counted.selectExpr("*", "learners / sum(learners) OVER (PARTITION BY lab) AS share")
    return shares.where("item IS NOT NULL")


def _learners(submissions: DataFrame, items: DataFrame) -> DataFrame:
    """What each learner has, where each is stuck, and what most others solve."""
    from pyspark.sql.functions import array, array_intersect, col, lit

    easy = [row[0] for row in items.where(f"facility >= {SOLVED_BY_MOST}").select("item").collect()]
    worked = "aggregate(map_values(worked_s), 0D, (all, each) -> all + each) / 3600"
    not_passed = "transform(filter(items, it -> it.status <> 'PASS'), it -> it.item)"
    totals = submissions.groupBy("learner").agg(
        *_columns(
            "count(*) AS labs",
            "sum(points) AS points",
            "sum(possible) AS possible",
            "sum(points) / sum(possible) AS share",
            f"sum(if(size(worked_s) > 0, {worked}, NULL)) AS hours",
            "sum(regraded) AS regraded",
            f"sort_array(flatten(collect_list({not_passed}))) AS open",
        )
    )
    by_most = array(*map(lit, easy)).cast("array<string>")
    return totals.withColumn("solved_by_most", array_intersect(col("open"), by_most))


def _labs(submissions: DataFrame) -> DataFrame:
    return submissions.groupBy("lab").agg(
        *_columns(
            "count(*) AS learners",
            "avg(points) AS mean",
            "percentile_approx(points, 0.5) AS median",
            "max(possible) AS possible",
            "avg(int(points = possible)) AS full",
        )
    )


def _columns(*expressions: str) -> Iterator[Any]:
    from pyspark.sql.functions import expr

    return map(expr, expressions)
