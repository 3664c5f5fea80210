import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** Apache's Java client under load, told what to do line by line: see load/__init__.py. */
public final class LoadClient {
    private final String nameServers;
    private final AtomicLong done = new AtomicLong();
    private final AtomicLong failed = new AtomicLong();
    private final AtomicReference<String> problem = new AtomicReference<>("");

    private LoadClient(String nameServers) {
        this.nameServers = nameServers;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            LoadClient client = new LoadClient(arguments[0]);
            double seconds = switch (words[0]) {
                case "send" -> client.send(words);
                case "consume", "pop" -> client.consume(words);
                default -> throw new IllegalArgumentException(line);
            };
            System.out.printf("{\"messages\":%d,\"seconds\":%.6f,\"failures\":%d,\"problem\":\"%s\"}%n",
                    client.done.get(), seconds, client.failed.get(),
                    client.problem.get().replaceAll("[\"\\\\\\p{Cntrl}]", " "));
        }
        System.exit(0);
    }

    private double send(String[] words) throws Exception {
        String topic = words[1];
        int callers = Integer.parseInt(words[3]);
        long nanos = (long) (Double.parseDouble(words[4]) * 1e9);
        byte[] body = new byte[Integer.parseInt(words[5])];
        DefaultMQProducer producer = new DefaultMQProducer("load-" + words[2]);
        producer.setNamesrvAddr(nameServers);
        producer.setSendMsgTimeout(20_000);
        producer.setMqClientApiTimeout(20_000);
        producer.setEnableTrace(System.getenv("ROCKETLINE_TRACED") != null);
        producer.start();
        try {
            producer.send(new Message(topic, body));
            long start = System.nanoTime();
            if (words[2].equals("async")) {
                async(producer, topic, body, callers, start + nanos);
            } else {
                blocking(producer, topic, body, callers, start + nanos);
            }
            return (System.nanoTime() - start) / 1e9;
        } finally {
            producer.shutdown();
        }
    }

    private void blocking(DefaultMQProducer producer, String topic, byte[] body, int callers, long end)
            throws Exception {
        Thread[] threads = new Thread[callers];
        for (int i = 0; i < callers; i++) {
            threads[i] = new Thread(() -> {
                while (System.nanoTime() < end) {
                    try {
                        note(producer.send(new Message(topic, body)));
                    } catch (Exception error) {
                        fail(error);
                    }
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private void async(DefaultMQProducer producer, String topic, byte[] body, int window, long end) throws Exception {
        Semaphore free = new Semaphore(window);
        while (System.nanoTime() < end) {
            free.acquire();
            producer.send(new Message(topic, body), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    note(result);
                    free.release();
                }

                @Override
                public void onException(Throwable error) {
                    fail(error);
                    free.release();
                }
            });
        }
        free.acquire(window);
    }

    private double consume(String[] words) throws Exception {
        int batch = Integer.parseInt(words[3]);
        long wanted = Long.parseLong(words[4]);
        AtomicLong first = new AtomicLong();
        AtomicLong last = new AtomicLong();
        CountDownLatch all = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(words[2]);
        consumer.setNamesrvAddr(nameServers);
        consumer.setMqClientApiTimeout(20_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeMessageBatchMaxSize(batch);
        consumer.setClientRebalance(!words[0].equals("pop"));
        consumer.subscribe(words[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            first.compareAndSet(0, System.nanoTime());
            if (done.addAndGet(messages.size()) >= wanted) {
                last.compareAndSet(0, System.nanoTime());
                all.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        boolean isComplete = all.await(Long.parseLong(words[5]), TimeUnit.SECONDS);
        long end = isComplete ? last.get() : System.nanoTime();
        consumer.shutdown();
        if (!isComplete) {
            fail(new IllegalStateException("not all messages came in time"));
        }
        return (end - first.get()) / 1e9;
    }

    private void note(SendResult result) {
        if (result.getSendStatus() == SendStatus.SEND_OK) {
            done.incrementAndGet();
        } else {
            fail(new IllegalStateException(result.getSendStatus().name()));
        }
    }

    private void fail(Throwable error) {
        failed.incrementAndGet();
        problem.compareAndSet("", String.valueOf(error));
    }
}
