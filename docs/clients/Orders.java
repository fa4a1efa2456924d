import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Sends each line of its input and waits for what it is told. */
public class Orders {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> told = System.getenv();
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", told.get("BOOTSTRAP"),
            "client.id", told.get("CLIENT_ID"),
            "request.timeout.ms", 1500,
            "delivery.timeout.ms", 8000,
            "linger.ms", 0);
        var text = new StringSerializer();
        var input = new BufferedReader(new InputStreamReader(System.in));
        try (var producer = new KafkaProducer<>(settings, text, text)) {
            for (String order; (order = input.readLine()) != null; ) {
                var record = new ProducerRecord<String, String>(told.get("TOPIC"), 0, null, order);
                try {
                    System.out.println("acked " + order + " " + producer.send(record).get().offset());
                } catch (ExecutionException error) {
                    System.out.println("failed " + order + " " + error.getCause().getClass().getSimpleName());
                }
            }
        }
    }
}
