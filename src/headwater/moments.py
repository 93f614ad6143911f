"""A moment as users name it: a csn, a timestamp, or nothing for the newest."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TypeAlias

from headwater.algebra.time import Csn
from headwater.catalog.store import Catalog
from headwater.errors import InvalidInput, MomentInFuture

Moment: TypeAlias = int | str | datetime

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def to_micros(moment: datetime) -> int:
    """Microseconds since 1970, exactly; a time without zone is local time, as in Spark."""
    return (moment.astimezone(timezone.utc) - _EPOCH) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def resolve(catalog: Catalog, moment: Moment, now: int) -> Csn:
    """The csn that a moment means."""
    newest = catalog.newest_csn()
    if isinstance(moment, bool) or not isinstance(moment, int | str | datetime):
        raise InvalidInput(f"{moment!r} is not a moment.", remedy="Give a csn (a whole number) or a timestamp.")
    if isinstance(moment, int):
        if moment < 0:
            raise InvalidInput(f"{moment} is not a csn.", remedy="Csns start at 0.")
        if moment > newest:
            raise MomentInFuture(
                f"Csn {moment} is not given yet; the newest is {newest}.",
                remedy="Capture first if tables have changed since, or ask for an earlier csn.",
                newest=newest,
            )
        return Csn(moment)
    try:
        at = datetime.fromisoformat(moment.strip().replace("Z", "+00:00")) if isinstance(moment, str) else moment
    except ValueError as error:
        raise InvalidInput(
            f"{moment!r} is not a timestamp.", remedy="Write it as 2026-01-31 17:00:00, with +00:00 for UTC."
        ) from error
    if to_micros(at) > now:
        raise MomentInFuture(f"{at.isoformat()} is in the future.", remedy="Ask for a moment that has passed.")
    return catalog.csn_at_timestamp(to_micros(at))
