import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;

/**
 * Maps of strings and records, worked on by two threads while the collector runs.
 *
 * usage: java Heap ENTRIES LINES     LINES numbers in each entry, at least 6
 */
public class Heap {
    record Order(int number, String customer, long cents, int[] lines) {}

    static String digest(Iterable<?> things) throws Exception {
        MessageDigest sha = MessageDigest.getInstance("SHA-256");
        for (Object thing : things) sha.update(thing.toString().getBytes("UTF-8"));
        StringBuilder text = new StringBuilder();
        for (byte b : sha.digest()) text.append(String.format("%02x", b));
        return text.toString();
    }

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[0]);
        int length = Integer.parseInt(args[1]);
        Random random = new Random(5);
        Map<String, Order> orders = new HashMap<>();
        List<String> keys = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            String key = "order-" + random.nextInt(1 << 30) + "/" + number;
            int[] lines = random.ints(length, 0, 5000).toArray();
            orders.put(key, new Order(number, "user" + random.nextInt(count) + "@example.org", random.nextInt(100000), lines));
            keys.add(key);
        }

        // One thread makes objects and keeps some of them, the other reads at random.
        List<String> kept = new ArrayList<>();
        Thread writer = new Thread(() -> {
            Random own = new Random(6);
            StringBuilder text = new StringBuilder();
            for (int i = 0; i < count * 4; i++) {
                text.setLength(0);
                text.append("note ").append(i).append(' ').append(own.nextLong());
                if (i % 16 == 0) kept.add(text.toString());
            }
        });
        long[] sum = new long[1];
        Thread reader = new Thread(() -> {
            Random own = new Random(8);
            for (int i = 0; i < count; i++) {
                Order order = orders.get(keys.get(own.nextInt(keys.size())));
                sum[0] += order.cents() + order.lines()[i % 6];
                order.lines()[i % 6] += 0;
            }
        });
        writer.start();
        reader.start();
        writer.join();
        reader.join();

        TreeMap<String, Long> perCustomer = new TreeMap<>();
        long check = 0;
        for (String key : keys) {
            Order order = orders.get(key);
            perCustomer.merge(order.customer(), order.cents(), Long::sum);
            for (int line : order.lines()) check = check * 31 + line;
        }
        Collections.sort(keys);
        System.out.println(orders.size() + " orders, sum " + sum[0] + ", check " + check);
        System.out.println("customers " + digest(perCustomer.entrySet()));
        System.out.println("keys " + digest(keys) + " kept " + kept.size() + " " + digest(kept));
    }
}
