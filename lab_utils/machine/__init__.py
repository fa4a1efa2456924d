"""The machine: Java, Kafka's jars, and one Kafka process."""
