import java.io.IOException;
import java.io.OutputStream;
import java.util.Arrays;

/** Runs the main class named first, and ends it when standard input closes: a server never outlives who started it. */
final class ServerLauncher {
    public static void main(String[] args) throws ReflectiveOperationException {
        Thread watch = new Thread(ServerLauncher::endWithParent, "end-with-parent");
        watch.setDaemon(true);
        watch.start();
        String[] rest = Arrays.copyOfRange(args, 1, args.length);
        Class.forName(args[0]).getMethod("main", String[].class).invoke(null, (Object) rest);
    }

    private static void endWithParent() {
        try {
            System.in.transferTo(OutputStream.nullOutputStream());
        } catch (IOException gone) {
            // The same news as the end of the stream.
        }
        Runtime.getRuntime().halt(143);
    }

    private ServerLauncher() {}
}
