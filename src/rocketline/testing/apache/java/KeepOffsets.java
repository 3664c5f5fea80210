import java.util.HashSet;
import java.util.Set;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.store.LocalFileOffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Reads and writes a broadcasting consumer's file of offsets with Apache's class. Arguments: client id, group, then
 * topic:broker:number to print the offset that the file has, or topic:broker:number=offset to put one in.
 */
final class KeepOffsets {
    public static void main(String[] arguments) throws Exception {
        MQClientInstance instance = new MQClientInstance(new ClientConfig(), 0, arguments[0]);
        LocalFileOffsetStore store = new LocalFileOffsetStore(instance, arguments[1]);
        store.load();
        Set<MessageQueue> changed = new HashSet<>();
        for (int at = 2; at < arguments.length; at++) {
            String[] sides = arguments[at].split("=");
            String[] parts = sides[0].split(":");
            MessageQueue queue = new MessageQueue(parts[0], parts[1], Integer.parseInt(parts[2]));
            if (sides.length == 1) {
                System.out.println(store.readOffset(queue, ReadOffsetType.READ_FROM_STORE));
            } else {
                store.updateOffset(queue, Long.parseLong(sides[1]), false);
                changed.add(queue);
            }
        }
        store.persistAll(changed);
        Runtime.getRuntime().halt(0);
    }

    private KeepOffsets() {
    }
}
