import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.rocketmq.common.message.Message;

/** Messages that carry their number, and how often the one who receives them shall fail: {@code 17/0}. */
final class Numbered {
    /** For an answer. The default of three seconds is not enough for JVMs that start side by side on a busy machine. */
    static final int PATIENCE_MS = 20_000;

    /** Whether clients write down what becomes of their messages. */
    static final boolean TRACED = System.getenv("ROCKETLINE_TRACED") != null;

    private static final int SIZE_MIN = 5000;

    static Message message(String topic, int number, int failures) {
        byte[] body = (number + "/" + failures).getBytes(StandardCharsets.UTF_8);
        if (number % 100 == 50) {
            // Beyond 4,096 bytes a producer compresses.
            int size = body.length;
            body = Arrays.copyOf(body, SIZE_MIN);
            Arrays.fill(body, size, body.length, (byte) ' ');
        }
        return new Message(topic, number % 2 == 0 ? "even" : "odd", "k" + number, body);
    }

    /** The number, then the count of failures. */
    static int[] read(byte[] body) {
        String[] parts = new String(body, StandardCharsets.UTF_8).trim().split("/");
        return new int[] {Integer.parseInt(parts[0]), Integer.parseInt(parts[1])};
    }

    /** What is replied to a request with this body. */
    static byte[] reply(byte[] body) {
        return ("re:" + new String(body, StandardCharsets.UTF_8)).getBytes(StandardCharsets.UTF_8);
    }

    private Numbered() {}
}
