"""The codec: Kafka's bytes, on the wire and in its log files, as typed values."""
