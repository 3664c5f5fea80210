import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.filter.SqlFilter;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.expression.MQFilterException;

/**
 * Evaluates expressions with Apache's filter library. A line in: an expression and a message's properties, as a record
 * has them, both in Base64 with a tab between. A line out: what came of it, in one word.
 */
final class EvaluateSql {
    public static void main(String[] none) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        SqlFilter filter = new SqlFilter();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split("\t", -1);
            out.println(evaluate(filter, text(parts[0]), MessageDecoder.string2messageProperties(text(parts[1]))));
        }
        out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static String text(String base64) {
        return new String(Base64.getDecoder().decode(base64), StandardCharsets.UTF_8);
    }

    private static String evaluate(SqlFilter filter, String text, Map<String, String> properties) {
        Expression expression;
        try {
            expression = filter.compile(text);
        } catch (MQFilterException refused) {
            return "parse-error";
        }
        try {
            Object result = expression.evaluate(new Properties(properties));
            return result == null ? "unknown" : Boolean.TRUE.equals(result) ? "match" : "no-match";
        } catch (Exception failed) {
            return "evaluation-error";
        }
    }

    /** A message's properties, as a broker hands them to an expression. */
    private record Properties(Map<String, String> all) implements EvaluationContext {
        @Override
        public Object get(String name) {
            return all.get(name);
        }

        @Override
        public Map<String, Object> keyValues() {
            return new HashMap<>(all);
        }
    }

    private EvaluateSql() {
    }
}
