import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A shop on a free port, which it prints. */
class Shop implements HttpHandler {
    static final Pattern WORD = Pattern.compile("([a-z]+)-([0-9]+)");
    final List<String> items = new ArrayList<>();

    static int compare(String a, String b) {
        return new StringBuilder(a).reverse().compareTo(new StringBuilder(b).reverse());
    }

    double price(String item) {
        Matcher m = WORD.matcher(item);
        m.matches();
        return Integer.parseInt(m.group(2)) * 1.19 + m.group(1).length();
    }

    String render(List<String> all) {
        StringBuilder out = new StringBuilder();
        for (String item : all) {
            out.append(item).append(": ").append(String.format("%.2f%n", price(item)));
        }
        return out.toString();
    }

    @Override
    public void handle(HttpExchange exchange) throws IOException {
        List<String> sorted = new ArrayList<>(items);
        sorted.sort(Shop::compare);
        byte[] body = render(sorted).getBytes();
        exchange.sendResponseHeaders(200, body.length);
        try (OutputStream out = exchange.getResponseBody()) {
            out.write(body);
        }
    }

    public static void main(String[] arguments) throws IOException {
        Shop shop = new Shop();
        for (int n = 0; n < 200; n++) {
            shop.items.add("item-" + n);
        }
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/", shop);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.start();
        System.out.println("http:/" + server.getAddress() + "/");
    }
}
