import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;

/** {@code send NAMESERVERS TOPIC KIND:FIRST:COUNT:FAILURES…}: prints how many were acknowledged, and what went wrong. */
final class Send {
    private static final int BATCH = 50;
    private static final int IN_FLIGHT = 32;
    private static final int CALLERS = 32;

    private final AtomicInteger sent = new AtomicInteger();
    private final ConcurrentLinkedQueue<String> problems = new ConcurrentLinkedQueue<>();
    /** Number, queue and offset, as JSON, of messages that the producer gathered to batches by itself. */
    private final ConcurrentLinkedQueue<String> places = new ConcurrentLinkedQueue<>();
    private final DefaultMQProducer producer;

    static int run(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("senders-" + arguments[1]);
        producer.setNamesrvAddr(arguments[0]);
        producer.setMqClientApiTimeout(Numbered.PATIENCE_MS);
        producer.setEnableTrace(Numbered.TRACED);
        producer.setSendMsgTimeout(Numbered.PATIENCE_MS);
        // A send that is repeated after its time is up may be stored twice.
        producer.setRetryTimesWhenSendFailed(0);
        producer.setRetryTimesWhenSendAsyncFailed(0);
        producer.start();
        Send send = new Send(producer);
        try {
            for (int i = 2; i < arguments.length; i++) {
                send.portion(arguments[1], arguments[i].split(":"));
            }
        } finally {
            producer.shutdown();
        }
        String problem = send.problems.isEmpty() ? "" : send.problems.peek().replaceAll("[\"\\\\\\p{Cntrl}]", " ");
        System.out.println("{\"sent\":" + send.sent + ",\"failed\":" + send.problems.size()
                + ",\"problem\":\"" + problem + "\""
                + (send.places.isEmpty() ? "" : ",\"places\":" + send.places) + "}");
        return 0;
    }

    private Send(DefaultMQProducer producer) {
        this.producer = producer;
    }

    private void portion(String topic, String[] portion) throws Exception {
        int first = Integer.parseInt(portion[1]);
        int count = Integer.parseInt(portion[2]);
        List<Message> messages = new ArrayList<>();
        for (int number = first; number < first + count; number++) {
            messages.add(Numbered.message(topic, number, Integer.parseInt(portion[3])));
        }
        switch (portion[0]) {
            case "sync" -> each(messages, message -> count(producer.send(message)));
            case "oneway" -> each(messages, message -> {
                producer.sendOneway(message);
                sent.incrementAndGet();
            });
            case "delayed" -> each(messages, message -> {
                message.setDelayTimeLevel(1);
                count(producer.send(message));
            });
            case "timed" -> each(messages, message -> {
                message.setDelayTimeMs(2500);
                count(producer.send(message));
            });
            case "recalled" -> each(messages, message -> {
                message.setDelayTimeSec(5);
                SendResult result = producer.send(message);
                String recalled = producer.recallMessage(topic, result.getRecallHandle());
                if (recalled.equals(result.getMsgId())) {
                    count(result);
                } else {
                    problems.add("recalled " + recalled + " in place of " + result.getMsgId());
                }
            });
            case "ordered" -> each(messages, message -> count(producer.send(
                    message,
                    (queues, queued, number) -> queues.get((Integer) number % queues.size()),
                    Numbered.read(message.getBody())[0])));
            case "lz4" -> compressed(messages, CompressionType.LZ4);
            case "zstd" -> compressed(messages, CompressionType.ZSTD);
            case "batch" -> batches(messages);
            case "async" -> async(messages);
            case "gathered" -> gathered(messages);
            case "request" -> each(messages, this::request);
            default -> throw new IllegalArgumentException("no such kind of send: " + portion[0]);
        }
    }

    private interface One {
        void send(Message message) throws Exception;
    }

    private void each(List<Message> messages, One one) {
        for (Message message : messages) {
            try {
                one.send(message);
            } catch (Exception failure) {
                problems.add(failure.toString());
            }
        }
    }

    private void compressed(List<Message> messages, CompressionType type) {
        producer.setCompressType(type);
        each(messages, message -> count(producer.send(message)));
        producer.setCompressType(CompressionType.ZLIB);
    }

    private void count(SendResult result) {
        if (result.getSendStatus() == SendStatus.SEND_OK) {
            sent.incrementAndGet();
        } else {
            problems.add(result.toString());
        }
    }

    /** Counts as sent once the right reply has come: the same text with {@code re:} before it. */
    private void request(Message message) throws Exception {
        byte[] asked = message.getBody();
        byte[] replied = producer.request(message, Numbered.PATIENCE_MS).getBody();
        if (Arrays.equals(replied, Numbered.reply(asked))) {
            sent.incrementAndGet();
        } else {
            problems.add("another reply: " + new String(replied, StandardCharsets.UTF_8));
        }
    }

    private void batches(List<Message> messages) {
        for (int from = 0; from < messages.size(); from += BATCH) {
            List<Message> batch = messages.subList(from, Math.min(from + BATCH, messages.size()));
            try {
                SendResult result = producer.send(batch);
                sent.addAndGet(result.getMsgId().split(",").length);
            } catch (Exception failure) {
                problems.add(failure.toString());
            }
        }
    }

    /** By many callers at once, each of whom waits for his answer. */
    private void gathered(List<Message> messages) throws Exception {
        producer.setAutoBatch(true);
        ExecutorService callers = Executors.newFixedThreadPool(CALLERS);
        for (Message message : messages) {
            callers.execute(() -> each(List.of(message), this::gather));
        }
        callers.shutdown();
        if (!callers.awaitTermination(2 * Numbered.PATIENCE_MS, TimeUnit.MILLISECONDS)) {
            problems.add("some messages were gathered and never sent");
        }
        producer.setAutoBatch(false);
    }

    private void gather(Message message) throws Exception {
        int number = Numbered.read(message.getBody())[0];
        SendResult result = producer.send(message);
        count(result);
        places.add("[" + number + "," + result.getMessageQueue().getQueueId() + "," + result.getQueueOffset() + "]");
    }

    private void async(List<Message> messages) throws Exception {
        Semaphore free = new Semaphore(IN_FLIGHT);
        for (Message message : messages) {
            if (!free.tryAcquire(2 * Numbered.PATIENCE_MS, TimeUnit.MILLISECONDS)) {
                throw new IllegalStateException("an asynchronous send was never answered");
            }
            producer.send(message, new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    count(result);
                    free.release();
                }

                @Override
                public void onException(Throwable failure) {
                    problems.add(failure.toString());
                    free.release();
                }
            });
        }
        if (!free.tryAcquire(IN_FLIGHT, 2 * Numbered.PATIENCE_MS, TimeUnit.MILLISECONDS)) {
            problems.add("some asynchronous sends were never answered");
        }
    }
}
