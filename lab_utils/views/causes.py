"""Why an order was sent again, or never came: what the wire shows of it, as half a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab_utils.views.exchanges import Exchange, carried

Carried = Mapping[str, Sequence[Exchange]]


def why_again(values: Sequence[str], carried_by: Carried, sent: Sequence[str]) -> str:
    """Why these crossed the wire again, if one cause holds for all, else an empty text."""
    causes = {_cause(value, carried_by, sent, len(values) > 1) for value in values}
    return causes.pop() if len(causes) == 1 else ""


def why_gone(values: Sequence[str], carried_by: Carried) -> str:
    """Why these are not in the log, if one cause holds for all, else an empty text."""
    last = [found[-1] for value in values if (found := carried_by.get(value))]
    errors = {exchange.error for exchange in last}
    them = "them" if len(values) > 1 else "it"
    if len(errors) == 1 and (error := errors.pop()):
        return f"the answer was {error}, and the client did not send {them} again"
    if len(last) == len(values) and all(exchange.is_lost for exchange in last):
        return "the requests were lost" if len(values) > 1 else "the request was lost"
    return ""


def was_recognised(value: str, carried_by: Carried) -> bool:
    """Did each request that carried it reach the broker with one and the same key?"""
    found = carried_by.get(value, [])
    keys = {
        (row.partition, row.producer_id, row.producer_epoch, row.sequence)
        for exchange in found
        for row in exchange.requests
        if value in carried(row)
    }
    has_id = all(producer_id is not None and producer_id >= 0 for _, producer_id, *_ in keys)
    return len(keys) == 1 and has_id and bool(found) and found[0].reached_broker


def _cause(value: str, carried_by: Carried, sent: Sequence[str], are_many: bool) -> str:
    their, them = ("their", "them") if are_many else ("its", "it")
    found = carried_by.get(value, [])
    if sent.count(value) > 1:
        return f"the program sent {them} again"
    if len(found) < 2:
        return ""
    if found[0].error:
        return f"{their} first answer was {found[0].error}, and the client sent {them} again"
    if not found[0].is_lost:
        return f"the client sent {them} again"
    request = found[0].request
    what = "request" if request is not None and request.fate == "dropped" else "answer"
    were = "s were" if are_many else " was"
    return f"{their} {what}{were} lost and the client sent {them} again"
