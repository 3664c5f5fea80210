import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Shares queues out with Apache's strategies. A line in: strategy, client, clients, queues, parted by tabs; clients by
 * commas, a queue being topic:broker:number. A line out: the client's queues in the same form, or "error".
 */
final class AllocateQueues {
    public static void main(String[] none) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split("\t", -1);
            out.println(allocate(strategy(parts[0]), parts[1], split(parts[2]), split(parts[3])));
        }
        Runtime.getRuntime().halt(0);
    }

    private static String allocate(AllocateMessageQueueStrategy strategy, String client, List<String> clients,
            List<String> names) {
        List<MessageQueue> queues = new ArrayList<>();
        for (String name : names) {
            String[] parts = name.split(":");
            queues.add(new MessageQueue(parts[0], parts[1], Integer.parseInt(parts[2])));
        }
        Collections.sort(queues);
        Collections.sort(clients);
        try {
            return strategy.allocate("group", client, queues, clients).stream()
                    .map(queue -> queue.getTopic() + ":" + queue.getBrokerName() + ":" + queue.getQueueId())
                    .collect(Collectors.joining(","));
        } catch (RuntimeException refused) {
            return "error";
        }
    }

    private static List<String> split(String text) {
        return text.isEmpty() ? new ArrayList<>() : new ArrayList<>(Arrays.asList(text.split(",")));
    }

    private static AllocateMessageQueueStrategy strategy(String name) {
        return switch (name) {
            case "AVG" -> new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE" -> new AllocateMessageQueueAveragelyByCircle();
            case "CONSISTENT_HASH" -> new AllocateMessageQueueConsistentHash();
            case "MACHINE_ROOM" -> {
                AllocateMessageQueueByMachineRoom strategy = new AllocateMessageQueueByMachineRoom();
                strategy.setConsumeridcs(new HashSet<>(List.of("r1", "r2")));
                yield strategy;
            }
            case "MACHINE_ROOM_NEARBY-AVG" ->
                new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(), new RoomOfName());
            default -> throw new IllegalArgumentException(name);
        };
    }

    /** What stands before the first @ of a broker's name or a client's id. */
    private static final class RoomOfName implements AllocateMachineRoomNearby.MachineRoomResolver {
        @Override
        public String brokerDeployIn(MessageQueue queue) {
            return room(queue.getBrokerName());
        }

        @Override
        public String consumerDeployIn(String client) {
            return room(client);
        }

        private static String room(String name) {
            int at = name.indexOf('@');
            return at < 0 ? "" : name.substring(0, at);
        }
    }

    private AllocateQueues() {
    }
}
