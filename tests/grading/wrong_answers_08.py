"""A wrong answer for each named mistake of lab 08: item, the mistake's name, and the cell.

The cells stand behind those of the notebook: its helpers are there.
"""

from __future__ import annotations

from typing import Final

BOOKS: Final = """
def booked_once(run):
    database = run.database()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (value TEXT)"))
        connection.execute(text("CREATE TABLE IF NOT EXISTS done (batch INTEGER PRIMARY KEY)"))

    def book(batch, number):
        orders = [{"value": row.value} for row in batch.collect()]
        STEPS

    run.start(run.stream().writeStream.foreachBatch(book), "table")
"""
ROWS: Final = """
        with database.begin() as connection:
            connection.execute(text("INSERT INTO bookings VALUES (:value)"), orders)
"""
NUMBER_FIRST: Final = (
    """
        with database.begin() as connection:
            mine = connection.execute(
                text("INSERT INTO done VALUES (:n) ON CONFLICT DO NOTHING"), {"n": number})
        if not mine.rowcount:
            return
"""
    + ROWS
)
FILE_FIRST: Final = (
    """
        done = pathlib.Path(f"{run.files}-{number}")
        if done.exists():
            return
        done.touch()
"""
    + ROWS
)
QUERY: Final = """
def once_in_ten_minutes(orders):
    return orders{calls}
"""
LATE: Final = '.withWatermark("timestamp", "{delay}")'
WITHIN: Final = '.dropDuplicatesWithinWatermark(["value"])'


def _books(steps: str) -> str:
    return BOOKS.replace("STEPS", steps.strip())


def _query(delay: str, drop: str) -> str:
    return QUERY.format(calls=(LATE.format(delay=delay) if delay else "") + drop)


def _answer(**wrong: str) -> str:
    right = {"topic": "twice", "table": "twice", "spark": "once", "files": "twice"}
    return f"answer_3 = {right | wrong!r}"


WRONG: Final = (
    ("08.1", "nothing is booked", _books("pass")),
    ("08.1", "the number before the rows", _books(NUMBER_FIRST)),
    ("08.1", "the number before the rows", "import pathlib\n" + _books(FILE_FIRST)),
    ("08.1", "twice", _books(ROWS)),
    ("08.2", "no watermark", _query("", '.dropDuplicates(["value"])')),
    (
        "08.2",
        "the time is part of the key",
        _query("10 minutes", '.dropDuplicates(["value", "timestamp"])'),
    ),
    ("08.2", "too impatient", _query("5 minutes", WITHIN)),
    ("08.2", "remembers too long", _query("10 minutes", '.dropDuplicates(["value"])')),
    ("08.3", "a list deletes nothing", _answer(files="once")),
    ("08.3", "Spark reads the list", _answer(spark="twice")),
    ("08.3", "the bookmark is enough", _answer(topic="once")),
    ("08.3", "the bookmark is enough", _answer(table="once", spark="twice", files="once")),
    ("08.3", "a repeated batch loses nothing", _answer(topic="lost", files="once")),
)
