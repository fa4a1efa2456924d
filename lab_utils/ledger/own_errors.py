"""Errors that say nothing of the service: of the client itself, the program or the order."""

from __future__ import annotations

from typing import Final

# Errors by which the client itself declines an order: nothing of it is on its way.
DECLINED: Final = (
    "BufferError", "BufferExhaustedException", "SerializationException", "_INVALID_ARG",
    "_KEY_SERIALIZATION", "_QUEUE_FULL", "_STATE", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC",
    "_VALUE_SERIALIZATION",
)  # fmt: skip
# And by which the program or the client stopped asking, or no one would take the order: nobody was
# unavailable. What waits in the queue for its retry has been on its way before, and so may have
# what is too large: the client says it by the name by which the broker does.
OWN_ERRORS: Final = (
    *DECLINED, "MSG_SIZE_TOO_LARGE", "_DESTROY", "_FATAL", "_PURGE_INFLIGHT", "_PURGE_QUEUE",
    # As Java's client says that the program aborted the transaction while the order was queued.
    "TransactionAbortedException",
    # No broker takes these orders, nor any of a producer that may not write or that another has
    # fenced. Kafka's own names differ from librdkafka's, and a Java program has exceptions.
    "MESSAGE_TOO_LARGE", "RecordTooLargeException", "RECORD_LIST_TOO_LARGE",
    "RecordBatchTooLargeException", "INVALID_RECORD", "InvalidRecordException",
    "INVALID_TIMESTAMP", "InvalidTimestampException", "INVALID_TOPIC_EXCEPTION",
    "InvalidTopicException", "TOPIC_AUTHORIZATION_FAILED", "TopicAuthorizationException",
    "CLUSTER_AUTHORIZATION_FAILED", "ClusterAuthorizationException", "_AUTHENTICATION",
    "SASL_AUTHENTICATION_FAILED", "SaslAuthenticationException",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "TransactionalIdAuthorizationException",
    "_FENCED", "PRODUCER_FENCED", "ProducerFencedException",
    "INVALID_PRODUCER_EPOCH", "InvalidProducerEpochException",
)  # fmt: skip
