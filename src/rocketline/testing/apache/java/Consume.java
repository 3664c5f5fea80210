import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * {@code consume NAMESERVERS TOPIC GROUP MODE EXPRESSION COUNT SECONDS}: prints COUNT deliveries, and those that
 * follow within a moment, as lists of number, queue id, queue offset, reconsume times, and store time less born time.
 */
final class Consume {
    private static final int MOMENT_MS = 1000;

    private final ConcurrentLinkedQueue<String> deliveries = new ConcurrentLinkedQueue<>();
    private final CountDownLatch open;
    private final long deadline;

    static int run(String[] arguments) throws Exception {
        Consume consume = new Consume(Integer.parseInt(arguments[5]), Integer.parseInt(arguments[6]));
        if (arguments[3].equals("pull")) {
            consume.pull(arguments);
        } else {
            consume.push(arguments);
        }
        System.out.println(consume.deliveries.stream().collect(Collectors.joining(",", "{\"deliveries\":[", "]}")));
        return 0;
    }

    private Consume(int count, int seconds) {
        open = new CountDownLatch(count);
        deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
    }

    private void push(String[] arguments) throws Exception {
        DefaultMQPushConsumer consumer = pushConsumer(arguments, this::takeAll);
        consumer.start();
        try {
            open.await(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
            Thread.sleep(MOMENT_MS);
        } finally {
            consumer.shutdown();
        }
    }

    /** Of NAMESERVERS TOPIC GROUP MODE EXPRESSION; {@code takeAll} says whether messages are done. */
    static DefaultMQPushConsumer pushConsumer(String[] arguments, Predicate<List<MessageExt>> takeAll) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[2]);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setMqClientApiTimeout(Numbered.PATIENCE_MS);
        consumer.setEnableTrace(Numbered.TRACED);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMaxReconsumeTimes(1);
        consumer.subscribe(arguments[1], selector(arguments[4]));
        if (arguments[3].equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                    takeAll.test(messages) ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            boolean toAll = arguments[3].equals("broadcast");
            consumer.setMessageModel(toAll ? MessageModel.BROADCASTING : MessageModel.CLUSTERING);
            // Otherwise two that broadcast share the file with their offsets.
            consumer.setInstanceName("pid" + ProcessHandle.current().pid());
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                    takeAll.test(messages) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        }
        return consumer;
    }

    /** Tags, or an expression in SQL if "sql:" stands before it. */
    private static MessageSelector selector(String expression) {
        return expression.startsWith("sql:")
                ? MessageSelector.bySql(expression.substring(4))
                : MessageSelector.byTag(expression);
    }

    private void pull(String[] arguments) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(arguments[2]);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setMqClientApiTimeout(Numbered.PATIENCE_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments[1], selector(arguments[4]));
        consumer.start();
        try {
            while (open.getCount() > 0 && System.nanoTime() < deadline) {
                takeAll(consumer.poll(MOMENT_MS));
            }
            takeAll(consumer.poll(MOMENT_MS));
            consumer.commit();
        } finally {
            consumer.shutdown();
        }
    }

    private boolean takeAll(List<MessageExt> messages) {
        boolean isDone = true;
        for (MessageExt message : messages) {
            isDone &= take(message);
        }
        return isDone;
    }

    private boolean take(MessageExt message) {
        int[] read = Numbered.read(message.getBody());
        long lagMs = message.getStoreTimestamp() - message.getBornTimestamp();
        deliveries.add("[" + read[0] + "," + message.getQueueId() + "," + message.getQueueOffset() + ","
                + message.getReconsumeTimes() + "," + lagMs + "]");
        open.countDown();
        return message.getReconsumeTimes() >= read[1];
    }
}
