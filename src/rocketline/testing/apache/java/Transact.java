import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * {@code transact NAMESERVERS TOPIC GROUP CHECKS SECONDS BODY:LOCAL:CHECK…}: sends each body whose local state is not
 * {@code none}, then waits until so many checks were answered; prints what was checked. A state is commit, rollback,
 * unknown or throw.
 */
final class Transact implements TransactionListener {
    private final Map<String, String[]> states = new ConcurrentHashMap<>();
    private final Queue<String> checked = new ConcurrentLinkedQueue<>();
    private final Semaphore checks = new Semaphore(0);

    @SuppressWarnings("deprecation") // there is no other way to its heartbeats
    static int run(String[] arguments) throws Exception {
        Transact listener = new Transact();
        TransactionMQProducer producer = new TransactionMQProducer(arguments[2]);
        producer.setNamesrvAddr(arguments[0]);
        producer.setInstanceName("transact-" + arguments[2]);
        producer.setMqClientApiTimeout(Numbered.PATIENCE_MS);
        producer.setEnableTrace(Numbered.TRACED);
        producer.setSendMsgTimeout(Numbered.PATIENCE_MS);
        producer.setTransactionListener(listener);
        producer.start();
        try {
            producer.fetchPublishMessageQueues(arguments[1]);
            producer.getDefaultMQProducerImpl().getMqClientFactory().sendHeartbeatToAllBrokerWithLock();
            for (String text : Arrays.copyOfRange(arguments, 5, arguments.length)) {
                String[] parts = text.split(":");
                listener.states.put(parts[0], parts);
                if (!parts[1].equals("none")) {
                    byte[] body = parts[0].getBytes(StandardCharsets.UTF_8);
                    producer.sendMessageInTransaction(new Message(arguments[1], "tag", parts[0], body), null);
                }
            }
            listener.checks.tryAcquire(
                    Integer.parseInt(arguments[3]), Integer.parseInt(arguments[4]), TimeUnit.SECONDS);
            Thread.sleep(500); // the last answer is on its way
        } finally {
            producer.shutdown();
        }
        String bodies = listener.checked.stream().map(body -> '"' + body + '"').collect(Collectors.joining(","));
        System.out.println("{\"checked\":[" + bodies + "]}");
        return 0;
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
        return state(message, 1);
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        checked.add(new String(message.getBody(), StandardCharsets.UTF_8));
        try {
            return state(message, 2);
        } finally {
            checks.release();
        }
    }

    private LocalTransactionState state(Message message, int part) {
        String[] parts = states.get(new String(message.getBody(), StandardCharsets.UTF_8));
        return switch (parts == null ? "unknown" : parts[part]) {
            case "commit" -> LocalTransactionState.COMMIT_MESSAGE;
            case "rollback" -> LocalTransactionState.ROLLBACK_MESSAGE;
            case "throw" -> throw new IllegalStateException("as told");
            default -> LocalTransactionState.UNKNOW;
        };
    }
}
