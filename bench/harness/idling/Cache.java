import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;

/**
 * A cache of documents on the heap. Reads commands from standard input, one per line: `work SECONDS` looks up
 * documents and prints how many per second. The end of the input ends it.
 *
 * usage: java Cache DOCUMENTS HOT     HOT documents are looked up
 */
public class Cache {
    record Document(int number, String title, String[] tags, long[] visits) {}

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[0]);
        int hot = Integer.parseInt(args[1]);
        Random random = new Random(5);
        String[] words = "amber basin cedar delta ember fjord grove harbor island juniper kettle lantern".split(" ");
        Map<String, Document> documents = new HashMap<>();
        for (int number = 0; number < count; number++) {
            String[] tags = new String[4];
            for (int tag = 0; tag < tags.length; tag++) tags[tag] = words[random.nextInt(words.length)] + random.nextInt(1000);
            String title = words[random.nextInt(words.length)] + " of " + words[random.nextInt(words.length)] + " " + random.nextInt();
            documents.put("doc:" + number, new Document(number, title, tags, random.longs(12, 0, 1L << 33).toArray()));
        }
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        long sum = 0;
        for (String line; (line = in.readLine()) != null; ) {
            double seconds = Double.parseDouble(line.split(" ")[1]);
            long begin = System.nanoTime(), end = begin + (long) (seconds * 1e9), done = 0;
            while (System.nanoTime() < end) {
                for (int i = 0; i < 1000; i++) {
                    Document found = documents.get("doc:" + random.nextInt(hot));
                    sum += found.visits()[i % 12] + found.title().length();
                }
                done += 1000;
            }
            System.out.println(Math.round(done / ((System.nanoTime() - begin) / 1e9)));
        }
        System.err.println("checksum " + sum);
    }
}
