import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * {@code watch NAMESERVERS TOPIC GROUP MODE EXPRESSION}: a push consumer that prints each delivery at once, as a list
 * of number, broker name, queue id, queue offset, reconsume times and time. When standard input ends it leaves its
 * group.
 */
final class Watch {
    static int run(String[] arguments) throws Exception {
        DefaultMQPushConsumer consumer = Consume.pushConsumer(arguments, Watch::print);
        consumer.setInstanceName("pid" + ProcessHandle.current().pid());
        consumer.start();
        System.out.println("\"ready\"");
        System.in.readAllBytes();
        consumer.shutdown();
        return 0;
    }

    private static boolean print(List<MessageExt> messages) {
        boolean isDone = true;
        for (MessageExt message : messages) {
            int[] read = Numbered.read(message.getBody());
            synchronized (Watch.class) {
                System.out.println("[" + read[0] + ",\"" + message.getBrokerName() + "\"," + message.getQueueId() + ","
                        + message.getQueueOffset() + "," + message.getReconsumeTimes() + ","
                        + System.currentTimeMillis() + "]");
            }
            isDone &= message.getReconsumeTimes() >= read[1];
        }
        return isDone;
    }

    private Watch() {}
}
