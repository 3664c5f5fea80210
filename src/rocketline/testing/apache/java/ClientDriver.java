import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.locks.LockSupport;

/**
 * Runs mqadmin commands, senders, consumers and transactions in one JVM, one call after the other, until standard
 * input ends; or the one call that its arguments are.
 *
 * <p>On standard input a call is a count of arguments, then each argument; an answer is a status (0: done), the call's
 * standard output and its error output. Numbers have four bytes, texts are UTF-8 behind their length.
 */
final class ClientDriver {
    public static void main(String[] only) throws IOException {
        hurryShutdowns(Thread.currentThread());
        if (only.length > 0) {
            Runtime.getRuntime().halt(run(only));
        }
        DataInputStream calls = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        try {
            while (true) {
                answer(readCall(calls), answers);
            }
        } catch (EOFException end) {
            // Not exit: clients leave threads and hooks behind.
            Runtime.getRuntime().halt(0);
        }
    }

    private static void answer(String[] call, DataOutputStream answers) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream error = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(error, true, StandardCharsets.UTF_8));
        answers.writeInt(run(call));
        writeText(answers, out);
        writeText(answers, error);
        answers.flush();
    }

    private static int run(String[] call) {
        String[] rest = Arrays.copyOfRange(call, 1, call.length);
        try {
            return switch (call[0]) {
                case "send" -> Send.run(rest);
                case "consume" -> Consume.run(rest);
                case "watch" -> Watch.run(rest);
                case "transact" -> Transact.run(rest);
                default -> Mqadmin.run(call[0], rest);
            };
        } catch (Exception failure) {
            failure.printStackTrace();
            return 1;
        }
    }

    /** A client that shuts down waits up to three seconds for a thread which waits for events: wake that thread. */
    private static void hurryShutdowns(Thread caller) {
        Thread hurry = new Thread(() -> {
            while (true) {
                LockSupport.parkNanos(20_000_000);
                if (Arrays.stream(caller.getStackTrace()).anyMatch(ClientDriver::isShutdown)) {
                    Thread.getAllStackTraces().keySet().stream()
                            .filter(thread -> thread.getName().equals("NettyEventExecutor"))
                            .forEach(Thread::interrupt);
                }
            }
        });
        hurry.setDaemon(true);
        hurry.start();
    }

    private static boolean isShutdown(StackTraceElement frame) {
        return frame.getClassName().endsWith(".ServiceThread") && frame.getMethodName().equals("shutdown");
    }

    private static String[] readCall(DataInputStream in) throws IOException {
        String[] call = new String[in.readInt()];
        for (int i = 0; i < call.length; i++) {
            call[i] = new String(in.readNBytes(in.readInt()), StandardCharsets.UTF_8);
        }
        return call;
    }

    private static void writeText(DataOutputStream out, ByteArrayOutputStream text) throws IOException {
        out.writeInt(text.size());
        text.writeTo(out);
    }

    private ClientDriver() {}
}
