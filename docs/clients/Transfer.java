import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** The program of many texts: all of a transaction in a try, and the abort in its catch block. */
public class Transfer {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> told = System.getenv();
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", told.get("BOOTSTRAP"),
            "client.id", told.get("CLIENT_ID"),
            "linger.ms", 60_000, // nothing is sent before it is asked for
            "transactional.id", told.get("CLIENT_ID"));
        var text = new StringSerializer();
        var input = new BufferedReader(new InputStreamReader(System.in));
        var producer = new KafkaProducer<>(settings, text, text);
        producer.initTransactions();
        try {
            producer.beginTransaction();
            for (String order; (order = input.readLine()) != null; ) {
                producer.send(new ProducerRecord<>(told.get("TOPIC"), 0, null, order));
            }
            if (!arguments[0].equals("fenced before it has sent")) {
                producer.flush();
            }
            if (arguments[0].equals("divide")) {
                int i = 1 / 0;
            }
            if (arguments[0].startsWith("fenced")) {
                new KafkaProducer<>(settings, text, text).initTransactions();
            }
            producer.commitTransaction();
            System.out.println("committed");
        } catch (Exception error) {
            System.out.println("caught " + error.getClass().getSimpleName());
            producer.abortTransaction();
            System.out.println("aborted");
        }
        System.exit(0);
    }
}
