import org.apache.commons.cli.CommandLine;
import org.apache.commons.cli.DefaultParser;
import org.apache.commons.cli.Options;
import org.apache.commons.cli.ParseException;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.srvutil.ServerUtil;
import org.apache.rocketmq.tools.command.MQAdminStartup;
import org.apache.rocketmq.tools.command.SubCommand;

/** What MQAdminStartup does, but for its habit to end the JVM over a wrong command line. */
final class Mqadmin extends MQAdminStartup {
    /** Runs one command; 1 if it cannot be read. What the command throws is the caller's. */
    static int run(String name, String[] arguments) throws Exception {
        // New command objects for every call: a few of them keep what they were asked.
        SUB_COMMANDS.clear();
        initCommand();
        SubCommand command = SUB_COMMANDS.stream()
                .filter(known -> name.equals(known.commandName()))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("mqadmin has no command " + name));
        Options options = command.buildCommandlineOptions(ServerUtil.buildCommandlineOptions(new Options()));
        CommandLine line;
        try {
            line = new DefaultParser().parse(options, arguments);
        } catch (ParseException wrong) {
            System.err.println(wrong.getMessage());
            return 1;
        }
        System.setProperty(MixAll.NAMESRV_ADDR_PROPERTY, line.getOptionValue('n'));
        command.execute(line, options, null);
        return 0;
    }

    private Mqadmin() {}
}
