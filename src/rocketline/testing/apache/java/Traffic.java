import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** A producer sends numbered messages, then a push consumer of a new group receives them. */
final class Traffic {
    /** Arguments: name servers, topic, group, how many messages, how many seconds to wait for the last. */
    static int run(String[] arguments) throws Exception {
        String nameServers = arguments[0];
        String topic = arguments[1];
        String group = arguments[2];
        int count = Integer.parseInt(arguments[3]);
        int sent = send(nameServers, topic, group, count);
        String received = receive(nameServers, topic, group, count, Integer.parseInt(arguments[4]));
        System.out.println("sent=" + sent + " " + received);
        return 0;
    }

    private static int send(String nameServers, String topic, String group, int count) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group + "-producer");
        producer.setNamesrvAddr(nameServers);
        producer.start();
        int sent = 0;
        try {
            for (int i = 0; i < count; i++) {
                byte[] body = Integer.toString(i).getBytes(StandardCharsets.UTF_8);
                sent += producer.send(new Message(topic, body)).getSendStatus() == SendStatus.SEND_OK ? 1 : 0;
            }
        } finally {
            producer.shutdown();
        }
        return sent;
    }

    private static String receive(String nameServers, String topic, String group, int count, int seconds)
            throws Exception {
        Set<String> bodies = ConcurrentHashMap.newKeySet();
        AtomicInteger deliveries = new AtomicInteger();
        CountDownLatch complete = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameServers);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                deliveries.incrementAndGet();
                if (bodies.add(new String(message.getBody(), StandardCharsets.UTF_8))) {
                    complete.countDown();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            complete.await(seconds, TimeUnit.SECONDS);
        } finally {
            consumer.shutdown();
        }
        return "received=" + deliveries.get() + " distinct=" + bodies.size();
    }

    private Traffic() {}
}
