"""What a user did, in the form keyfold reads. Needs Python 3.9 and no package."""

import hashlib
import json
import os
import sys
from datetime import datetime, timezone


def event(user_id, event_type, reference, metadata=None, at=None):
    """Make an event.

    event_type is one of search, product_view, product_click and product_purchase;
    reference is the phrase of a search and the product's id otherwise.

    The message_id follows from what happened and when. Make the event once and
    keep it for as long as you may have to send it: sent twice, it counts once.
    """
    at = at or datetime.now(timezone.utc)  # a datetime with its offset
    occurred_at = at.isoformat(timespec="milliseconds")
    search = event_type == "search"
    id_text = f"{user_id}|{event_type}|{reference}|{occurred_at}"
    return {
        "user_id": user_id,
        "event_type": event_type,
        "search_phrase": str(reference) if search else None,
        "product_id": None if search else int(reference),
        "occurred_at": occurred_at,
        "metadata": metadata or {},
        "message_id": hashlib.sha256(id_text.encode()).hexdigest(),
        "version": "1.0",
    }


def to_json(event):
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


def event_from_arguments():
    """Read an event from the command line: TYPE USER PHRASE-OR-PRODUCT."""
    script = os.path.basename(sys.argv[0])
    try:
        event_type, user_id, reference = sys.argv[1:]
        return event(int(user_id), event_type, reference, {"source": script})
    except ValueError:
        sys.stderr.write(
            f"usage: python3 {script} search 12345 'hiking boots'\n       python3 {script} product_view 12345 789\n"
        )
        sys.exit(2)
