import com.google.gson.Gson;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * {@code GrpcClient ENDPOINT AWAIT_SECONDS}: does what the lines of its standard input say, one after the other, each
 * with a line of JSON for an answer. {@code rocketline.testing.clients.grpc} tells which calls there are.
 */
final class GrpcClient {
    private static final Duration PATIENCE = Duration.ofSeconds(20);

    private final ClientServiceProvider library = ClientServiceProvider.loadService();
    private final ClientConfiguration configuration;
    private final Duration await;
    private final Map<String, Producer> producers = new HashMap<>();
    private final Map<String, SimpleConsumer> consumers = new HashMap<>();
    private final Map<String, Queue<Map<String, Object>>> pushed = new HashMap<>();
    private final Map<String, Held> held = new HashMap<>();

    private record Held(SimpleConsumer consumer, MessageView message) {}

    public static void main(String[] arguments) throws IOException {
        GrpcClient client = new GrpcClient(arguments[0], Integer.parseInt(arguments[1]));
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Gson json = new Gson();
        for (String line = calls.readLine(); line != null; line = calls.readLine()) {
            answers.println(json.toJson(client.answer(json.fromJson(line, JsonObject.class))));
        }
        // Not close: a push consumer would wait for the end of its long poll.
        Runtime.getRuntime().halt(0);
    }

    private GrpcClient(String endpoint, int awaitSeconds) {
        await = Duration.ofSeconds(awaitSeconds);
        configuration = ClientConfiguration.newBuilder()
                .setEndpoints(endpoint)
                .enableSsl(false)
                .setRequestTimeout(PATIENCE)
                .build();
    }

    private Object answer(JsonObject call) {
        try {
            return Map.of("answer", perform(call));
        } catch (Exception failure) {
            failure.printStackTrace();
            return Map.of("error", String.valueOf(failure));
        }
    }

    private Object perform(JsonObject call) throws Exception {
        return switch (call.get("call").getAsString()) {
            case "send" -> send(call);
            case "transact" -> transact(call);
            case "recall" -> producer(text(call, "topic"))
                    .recallMessage(text(call, "topic"), text(call, "handle"))
                    .getMessageId()
                    .toString();
            case "receive" -> receive(call);
            case "ack" -> acknowledge(held.get(text(call, "held")));
            case "change" -> change(held.get(text(call, "held")), seconds(call));
            case "push" -> push(call);
            case "pushed" -> new ArrayList<>(pushed.get(text(call, "topic")));
            default -> throw new IllegalArgumentException("no such call: " + call);
        };
    }

    private Object send(JsonObject call) throws ClientException {
        return receipt(producer(text(call, "topic")).send(message(call)));
    }

    private Object transact(JsonObject call) throws ClientException {
        Producer producer = producer(text(call, "topic"));
        Transaction transaction = producer.beginTransaction();
        Object receipt = receipt(producer.send(message(call), transaction));
        switch (text(call, "end")) {
            case "commit" -> transaction.commit();
            case "rollback" -> transaction.rollback();
            default -> {}
        }
        return receipt;
    }

    private static Object receipt(SendReceipt receipt) {
        String recall = receipt.getRecallHandle();
        return Map.of("id", receipt.getMessageId().toString(), "recall", recall == null ? "" : recall);
    }

    private Message message(JsonObject call) {
        MessageBuilder builder = library.newMessageBuilder()
                .setTopic(text(call, "topic"))
                .setBody(text(call, "body").getBytes(StandardCharsets.UTF_8));
        if (call.has("tag")) {
            builder.setTag(text(call, "tag"));
        }
        if (call.has("key")) {
            builder.setKeys(text(call, "key"));
        }
        if (call.has("message_group")) {
            builder.setMessageGroup(text(call, "message_group"));
        }
        if (call.has("due_s")) {
            builder.setDeliveryTimestamp(call.get("due_s").getAsLong() * 1000);
        }
        if (call.has("properties")) {
            call.getAsJsonObject("properties")
                    .entrySet()
                    .forEach(one -> builder.addProperty(one.getKey(), one.getValue().getAsString()));
        }
        return builder.build();
    }

    private Producer producer(String topic) throws ClientException {
        if (!producers.containsKey(topic)) {
            producers.put(topic, library.newProducerBuilder()
                    .setClientConfiguration(configuration)
                    .setTopics(topic)
                    .setMaxAttempts(1)
                    .setTransactionChecker(GrpcClient::check)
                    .build());
        }
        return producers.get(topic);
    }

    private static TransactionResolution check(MessageView message) {
        String body = body(message);
        return body.endsWith("/commit") ? TransactionResolution.COMMIT
                : body.endsWith("/rollback") ? TransactionResolution.ROLLBACK
                : TransactionResolution.UNKNOWN;
    }

    private Object receive(JsonObject call) throws ClientException {
        SimpleConsumer consumer = consumer(text(call, "topic"), text(call, "group"), text(call, "tags"));
        List<Object> received = new ArrayList<>();
        for (MessageView message : consumer.receive(call.get("count").getAsInt(), seconds(call))) {
            Map<String, Object> told = told(message);
            held.put(told.get("id") + "/" + message.getDeliveryAttempt(), new Held(consumer, message));
            received.add(told);
        }
        return received;
    }

    private SimpleConsumer consumer(String topic, String group, String tags) throws ClientException {
        String name = topic + "/" + group;
        if (!consumers.containsKey(name)) {
            consumers.put(name, library.newSimpleConsumerBuilder()
                    .setClientConfiguration(configuration)
                    .setConsumerGroup(group)
                    .setAwaitDuration(await)
                    .setSubscriptionExpressions(Map.of(topic, new FilterExpression(tags)))
                    .build());
        }
        return consumers.get(name);
    }

    private static Map<String, Object> told(MessageView message) {
        return Map.of(
                "id", message.getMessageId().toString(),
                "body", body(message),
                "attempt", message.getDeliveryAttempt(),
                "tag", message.getTag().orElse(""),
                "keys", message.getKeys(),
                "message_group", message.getMessageGroup().orElse(""),
                "properties", message.getProperties(),
                "time_ms", System.currentTimeMillis());
    }

    private static Object acknowledge(Held held) throws ClientException {
        held.consumer.ack(held.message);
        return "";
    }

    private static Object change(Held held, Duration invisible) throws ClientException {
        held.consumer.changeInvisibleDuration(held.message, invisible);
        return "";
    }

    private Object push(JsonObject call) throws ClientException {
        Queue<Map<String, Object>> deliveries = new ConcurrentLinkedQueue<>();
        pushed.put(text(call, "topic"), deliveries);
        library.newPushConsumerBuilder()
                .setClientConfiguration(configuration)
                .setConsumerGroup(text(call, "group"))
                .setSubscriptionExpressions(Map.of(text(call, "topic"), new FilterExpression(text(call, "tags"))))
                .setMessageListener(message -> {
                    deliveries.add(told(message));
                    return fails(message, deliveries) ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
                })
                .build();
        return "";
    }

    /** A body such as 17/2 asks to fail at its first two deliveries, to this client or, if it knows, to others. */
    private static boolean fails(MessageView message, Queue<Map<String, Object>> deliveries) {
        String body = body(message);
        long times = deliveries.stream().filter(one -> one.get("body").equals(body)).count();
        return Math.max(times, message.getDeliveryAttempt()) <= Integer.parseInt(body.substring(body.indexOf('/') + 1));
    }

    private static String body(MessageView message) {
        return StandardCharsets.UTF_8.decode(message.getBody()).toString();
    }

    private static String text(JsonObject call, String name) {
        return call.get(name).getAsString();
    }

    private static Duration seconds(JsonObject call) {
        return Duration.ofSeconds(call.get("invisible_s").getAsLong());
    }
}
