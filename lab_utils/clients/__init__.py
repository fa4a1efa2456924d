"""The clients under study: the real confluent_kafka classes, recorded."""
