"""Publishes events to RabbitMQ, for a shop that has an outbox of its own.

Needs Python 3.9 and pika 1.2 (pip install pika, or Debian's package python3-pika,
which only Debian's own /usr/bin/python3 sees). `keyfold setup` has declared the
exchange.

    RABBITMQ_DSN=amqp://guest:guest@localhost:5672/ python3 rabbitmq.py product_view 12345 789
"""

import os
import sys
from datetime import datetime

import pika
from pika.exceptions import AMQPError, NackError, UnroutableError

from event import event_from_arguments, to_json


class KeyfoldQueue:
    EXCHANGE = "user_events"

    def __init__(self, channel):
        channel.confirm_delivery()
        self._channel = channel

    def publish(self, events):
        """Publish events and return once the broker has them.

        After an exception publish all of them again: those that came through
        count once.
        """
        for event in events:
            key = "user.embedding." + event["event_type"]
            try:
                # Returns with the broker's confirm. mandatory: a message that no
                # queue wants is an error, instead of confirmed and gone.
                self._channel.basic_publish(
                    self.EXCHANGE, key, to_json(event).encode(), self._properties(event), mandatory=True
                )
            except UnroutableError as error:
                raise RuntimeError(f"{event['message_id']}: no queue takes {key}; run keyfold setup") from error
            except NackError as error:
                raise RuntimeError(f"{event['message_id']}: the broker has not taken it") from error

    @staticmethod
    def _properties(event):
        # Before Python 3.11 fromisoformat reads "+00:00" and no "Z".
        occurred_at = datetime.fromisoformat(event["occurred_at"])
        return pika.BasicProperties(
            content_type="application/json",
            content_encoding="utf-8",
            delivery_mode=2,  # persistent
            priority=5,
            message_id=event["message_id"],
            app_id="shop",
            timestamp=int(occurred_at.timestamp()),
        )


def connect(dsn):
    """amqp://user:password@host:port/vhost, or amqps:// for TLS."""
    parameters = pika.URLParameters(dsn)
    parameters.client_properties = {"connection_name": "shop events"}
    parameters.blocked_connection_timeout = 5  # for a broker whose memory or disk is full
    return pika.BlockingConnection(parameters)


if __name__ == "__main__":
    event = event_from_arguments()
    try:
        connection = connect(os.environ.get("RABBITMQ_DSN") or "amqp://guest:guest@localhost:5672/")
        KeyfoldQueue(connection.channel()).publish([event])
        connection.close()
        print(event["message_id"])
    except (AMQPError, RuntimeError) as error:
        sys.exit(str(error) or repr(error))  # some of pika's errors have no text
