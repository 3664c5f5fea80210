import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * {@code watch NAMESERVERS TOPIC GROUP MODE EXPRESSION}: a push consumer that prints each delivery at once, as a list
 * of number, broker name, queue id, queue offset, reconsume times and time. In the mode {@code reply} it also replies to
 * each. When standard input ends it leaves its group.
 */
final class Watch {
    static int run(String[] arguments) throws Exception {
        DefaultMQProducer replier = arguments[3].equals("reply") ? replier(arguments) : null;
        DefaultMQPushConsumer consumer = Consume.pushConsumer(
                arguments, messages -> print(messages) && (replier == null || replyTo(replier, messages)));
        consumer.setInstanceName("pid" + ProcessHandle.current().pid());
        consumer.start();
        System.out.println("\"ready\"");
        System.in.readAllBytes();
        consumer.shutdown();
        if (replier != null) {
            replier.shutdown();
        }
        return 0;
    }

    private static DefaultMQProducer replier(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("repliers-" + arguments[1]);
        producer.setNamesrvAddr(arguments[0]);
        producer.setInstanceName("replier" + ProcessHandle.current().pid());
        producer.setSendMsgTimeout(Numbered.PATIENCE_MS);
        producer.start();
        return producer;
    }

    private static boolean replyTo(DefaultMQProducer replier, List<MessageExt> requests) {
        try {
            for (MessageExt request : requests) {
                replier.send(MessageUtil.createReplyMessage(request, Numbered.reply(request.getBody())));
            }
            return true;
        } catch (Exception failure) {
            failure.printStackTrace();
            return false;
        }
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
