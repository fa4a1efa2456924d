"""A lab that shows what Apache Kafka's delivery guarantees really promise."""
