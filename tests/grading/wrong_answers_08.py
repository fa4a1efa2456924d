"""A wrong answer for each named mistake of lab 08: item, the mistake's name, the answer.

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


def _books(steps: str) -> str:
    return BOOKS.replace("STEPS", steps.strip())


WRONG: Final = (
    ("08.1", "nothing is booked", _books("pass")),
    ("08.1", "the number before the rows", _books(NUMBER_FIRST)),
    ("08.1", "the number before the rows", "import pathlib\n" + _books(FILE_FIRST)),
    ("08.1", "twice", _books(ROWS)),
    (
        "08.2",
        "no watermark",
        [('.withWatermark("timestamp", "10 minutes")', ""), ("WithinWatermark", "")],
    ),
    (
        "08.2",
        "the time is part of the key",
        [('WithinWatermark(["value"])', '(["value", "timestamp"])')],
    ),
    ("08.2", "too impatient", [("10 minutes", "5 minutes")]),
    ("08.2", "remembers too long", [("WithinWatermark", "")]),
    ("08.3", "a list deletes nothing", {"files": "once"}),
    ("08.3", "Spark reads the list", {"spark": "twice"}),
    ("08.3", "the bookmark is enough", {"topic": "once"}),
    ("08.3", "the bookmark is enough", {"table": "once", "spark": "twice", "files": "once"}),
    ("08.3", "a repeated batch loses nothing", {"topic": "lost", "files": "once"}),
)
