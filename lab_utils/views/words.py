r"""Words for pictures and tables: text that is never interpreted, and the finding of a run.

A value or an error text may hold anything; Plotly understands a few tags, a browser all of them.
A headline looks for the worst first and says what the wire shows of its cause. It is a picture's
title, not a judgement: the audit decides what is a breach.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from lab_utils.ledger.events import Event
from lab_utils.ledger.history import History, Order, carried

LENGTH_LIMIT: Final = 40
NAMED_LIMIT: Final = 4
ARE: Final = ("is", "are")
WERE: Final = ("was", "were")
NOT_FIRED: Final = "The fault never fired, so this run proves nothing"


def shown(text: object, limit: int = LENGTH_LIMIT) -> str:
    r"""One line of text, control characters as escapes, shortened in the middle.

    >>> shown("order\n3"), shown("a" * 50, 11)
    ('order\\n3', 'aaaaa…aaaaa')
    """
    line = "".join(
        it if it.isprintable() else it.encode("unicode_escape").decode() for it in str(text)
    )
    if len(line) <= limit:
        return line
    return f"{line[: limit // 2]}…{line[-(limit // 2) :]}"


def in_picture(text: object, limit: int = LENGTH_LIMIT) -> str:
    """Text for Plotly: no tag, no formula, no hidden line break.

    >>> in_picture("<b>$x$</b>")
    '&lt;b&gt;&#36;x&#36;&lt;/b&gt;'
    """
    return escape(shown(text, limit), quote=False).replace("$", "&#36;")


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


def orders_named(values: Sequence[object]) -> str:
    """Orders by name, or their number if they are many.

    >>> orders_named(["2"]), orders_named("0123"), orders_named("01234")
    ('Order 2', 'Orders 0, 1, 2 and 3', '5 orders')
    """
    if len(values) > NAMED_LIMIT:
        return counted(len(values), "order")
    many = "s" if len(values) > 1 else ""
    return f"Order{many} {listed([shown(value, 16) for value in values])}"


def said_of(values: Sequence[object], what: str, verbs: tuple[str, str] = ARE) -> list[str]:
    """A sentence of these orders without its full stop, if there are any."""
    return [f"{orders_named(values)} {verbs[len(values) > 1]} {what}"] if values else []


def headline(rows: Sequence[Event]) -> str:
    """What happened in this run, worst first, in one sentence without a full stop."""
    run = History(rows)
    findings = (_lost, _duplicated, _reordered, _stored_once, _unplaced, _unsure, _unproven)
    return next(filter(None, (finding(run) for finding in findings)), "") or _calm(run)


def _lost(run: History) -> str:
    lost = [order for order in run.orders.values() if order.lost]
    return _say("{orders} {were} acked and {are} not in the log", lost, _why_gone(lost))


def _duplicated(run: History) -> str:
    often = "twice" if {len(it.copies) for it in run.duplicated} == {2} else "more than once"
    return _say("{orders} {were} stored " + often, run.duplicated, _why_again(run.duplicated))


def _reordered(run: History) -> str:
    orders = [order for order, _ in run.reordered]
    behind = next((shown(ahead) for _, ahead in run.reordered), "")
    what = "{orders} {were} stored after order {behind}"
    return _say(what, orders, _why_again(orders), behind=behind)


def _stored_once(run: History) -> str:
    again = [it for it in run.orders.values() if len(it.exchanges) > 1 and len(it.copies) == 1]
    cause = _why_again(again)
    if all(map(_was_recognised, again)) and not any(map(_refused_copies, again)):
        whose = "its sequence number" if len(again) == 1 else "their sequence numbers"
        cause = f"the broker knew {whose}"
    often = "twice" if {len(it.exchanges) for it in again} == {2} else "more than once"
    return _say("{orders} crossed the wire " + often + " and {were} stored once", again, cause)


def _unplaced(run: History) -> str:
    unplaced = [
        order for order in run.orders.values()
        if order.copies and any(row.offset is None for row in order.acked)
    ]  # fmt: skip
    return _say("{orders} {were} acked without an offset and {are} in the log", unplaced)


def _unsure(run: History) -> str:
    stored = [order for order in run.orders.values() if order.unknown and order.copies]
    if stored:
        return _say("{orders} {are} in the log, and the client cannot know it", stored)
    unacked = [order for order in run.orders.values() if order.unknown or order.failed]
    absent = [order for order in unacked if not order.copies and run.is_drained]
    return _say("{orders} {were} not acked and {are} not in the log", absent)


def _unproven(run: History) -> str:
    if run.of("fault", "armed") and not run.of("fault", "fired"):
        return NOT_FIRED
    return ""


def _calm(run: History) -> str:
    if not (run.log and run.is_drained):
        return f"{counted(len(run.exchanges), 'Produce request')} crossed the wire"
    sent = [order for order in run.orders.values() if order.sent or order.exchanges]
    if not sent:  # by a client of the run; the lab has filled the topic before
        return f"{counted(len({row.value for row in run.log}), 'order')} in the log, each once"
    many = counted(len({order.value for order in sent}), "order")
    stored = len({order.value for order in sent if order.copies})
    said = "each is stored once" if all(it.copies for it in sent) else f"{stored} are stored once"
    hidden = len({order.value for order in sent if _is_hidden(run, order)})
    return f"{many} sent, and {said}" + (f"; {hidden} not committed" if hidden else "")


def _is_hidden(run: History, order: Order) -> bool:
    """Is it in the log, and no read_committed reader is given it?"""
    if not run.of("log", "marker"):
        return False
    visible = {(row.topic, row.partition, row.offset) for row in run.of("log", "visible")}
    places = {(row.topic, row.partition, row.offset) for row in order.copies}
    return bool(places) and places.isdisjoint(visible)


def _say(what: str, orders: Sequence[Order], cause: str = "", **named: str) -> str:
    """The sentence with the orders by name; an empty one if there are none."""
    if not orders:
        return ""
    named |= {"were": WERE[len(orders) > 1], "are": ARE[len(orders) > 1]}
    said = what.format(orders=orders_named([it.value for it in orders]), **named)
    return f"{said}: {cause}" if cause else said


def _why_again(orders: Sequence[Order]) -> str:
    """Why these crossed the wire again, if one cause holds for all, else an empty text."""
    causes = {_cause(order, len(orders) > 1) for order in orders}
    return causes.pop() if len(causes) == 1 else ""


def _cause(order: Order, are_many: bool) -> str:
    their, them = ("their", "them") if are_many else ("its", "it")
    if refused := _refused_copies(order):
        return f"the broker refused the proxy's copy with {refused[0]}"
    if any(exchange.is_replay for exchange in order.exchanges):
        return f"the proxy sent {them} again"
    if len(order.sent) > 1:
        return f"the program sent {them} again"
    if len(order.exchanges) < 2:
        return ""
    first = order.exchanges[0]
    if first.error:
        return f"{their} first answer was {first.error}, and the client sent {them} again"
    if not first.is_lost:
        return f"the client sent {them} again"
    what = "request" if first.request and first.request.fate == "dropped" else "answer"
    return f"{their} {what}{'s were' if are_many else ' was'} lost and the client sent {them} again"


def _refused_copies(order: Order) -> list[str]:
    """The errors with which the broker answered copies that the proxy sent."""
    return [it.error for it in order.exchanges if it.is_replay and it.error]


def _why_gone(orders: Sequence[Order]) -> str:
    """Why these are not in the log, if one cause holds for all, else an empty text."""
    last = [order.exchanges[-1] for order in orders if order.exchanges]
    errors = {exchange.error for exchange in last}
    them = "them" if len(orders) > 1 else "it"
    if len(errors) == 1 and (error := errors.pop()):
        return f"the answer was {error}, and the client did not send {them} again"
    if len(last) == len(orders) and all(exchange.is_lost for exchange in last):
        return "the requests were lost" if len(orders) > 1 else "the request was lost"
    return ""


def _was_recognised(order: Order) -> bool:
    """Did each request that carried it reach the broker with one and the same key?"""
    keys = {
        (row.partition, row.producer_id, row.producer_epoch, row.sequence)
        for exchange in order.exchanges
        for row in exchange.requests
        if row.topic == order.topic and order.value in carried(row)
    }
    has_id = all(producer_id is not None and producer_id >= 0 for _, producer_id, *_ in keys)
    return len(keys) == 1 and has_id and order.exchanges[0].reached_broker
