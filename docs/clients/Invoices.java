import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/** Writes an invoice for each order with Kafka Streams, until so many are acked: then it dies, or ends. */
public class Invoices {
    private static final CountDownLatch ACKED = new CountDownLatch(1);
    private static int left;
    private static boolean dies;

    /** Called by the producer for each answer, before it sends anything else. */
    public static class Acks implements ProducerInterceptor<byte[], byte[]> {
        public void onAcknowledgement(RecordMetadata where, Exception error) {
            if (error == null && --left == 0) {
                if (dies) {
                    Runtime.getRuntime().halt(9);
                }
                ACKED.countDown();
            }
        }

        public ProducerRecord<byte[], byte[]> onSend(ProducerRecord<byte[], byte[]> record) {
            return record;
        }

        public void close() {
        }

        public void configure(Map<String, ?> settings) {
        }
    }

    public static void main(String[] arguments) throws Exception {
        left = Integer.parseInt(arguments[1]);
        dies = arguments[2].equals("dies");
        Map<String, String> told = System.getenv();
        var settings = new Properties();
        settings.putAll(Map.of(
            "bootstrap.servers", told.get("BOOTSTRAP"),
            "client.id", told.get("CLIENT_ID"),
            "application.id", told.get("CLIENT_ID"),
            "state.dir", told.get("FOLDER"),
            "processing.guarantee", arguments[0],
            "commit.interval.ms", 10000));
        settings.putAll(Map.of(
            "default.key.serde", Serdes.ByteArraySerde.class,
            "default.value.serde", Serdes.ByteArraySerde.class,
            "group.instance.id", "one",
            "producer.interceptor.classes", Acks.class.getName(),
            "producer.linger.ms", 0));
        var builder = new StreamsBuilder();
        builder.stream(told.get("TOPIC")).to(told.get("INVOICES"));
        var streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        });
        streams.start();
        ACKED.await();
        streams.close();
    }
}
