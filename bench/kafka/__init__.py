"""Topics on Kafka, beside plain clients."""
