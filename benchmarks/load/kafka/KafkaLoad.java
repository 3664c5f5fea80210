import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What a benchmark needs of Kafka beside Spark: topics, and messages at a steady pace.
 *
 * <pre>
 * KafkaLoad BOOTSTRAP topics PARTITIONS NAME...
 * KafkaLoad BOOTSTRAP pace TOPIC PER_SECOND SECONDS BODY_BYTES
 * </pre>
 */
public class KafkaLoad {
    public static void main(String[] words) throws Exception {
        if (words[1].equals("topics")) {
            createTopics(words[0], Integer.parseInt(words[2]), List.of(words).subList(3, words.length));
        } else {
            pace(words[0], words[2], Integer.parseInt(words[3]), Integer.parseInt(words[4]), Integer.parseInt(words[5]));
        }
    }

    private static void createTopics(String bootstrap, int partitions, List<String> names) throws Exception {
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap))) {
            admin.createTopics(names.stream().map(name -> new NewTopic(name, partitions, (short) 1)).toList()).all().get();
        }
    }

    private static void pace(String bootstrap, String topic, int perSecond, int seconds, int bodyBytes) throws Exception {
        AtomicReference<Exception> failure = new AtomicReference<>();
        ByteArraySerializer bytes = new ByteArraySerializer();
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            long began = System.nanoTime();
            for (int number = 0; number < perSecond * seconds && failure.get() == null; number++) {
                long early = began + number * 1_000_000_000L / perSecond - System.nanoTime();
                if (early > 0) {
                    Thread.sleep(early / 1_000_000, (int) (early % 1_000_000));
                }
                byte[] key = ("key-" + number).getBytes(StandardCharsets.UTF_8);
                producer.send(new ProducerRecord<>(topic, key, new byte[bodyBytes]), (place, problem) -> {
                    if (problem != null) {
                        failure.compareAndSet(null, problem);
                    }
                });
            }
        }
        if (failure.get() != null) {
            throw failure.get();
        }
    }
}
