package dev.jcold.servers;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** The JDK's own com.sun.net.httpserver. The argument is its port on loopback. */
public final class JdkServer {

    private static final ExecutorService BEHIND = Executors.newFixedThreadPool(2);

    private JdkServer() {
    }

    public static void main(String[] arguments) throws IOException {
        int port = Integer.parseInt(arguments[0]);
        // It writes head and body apart; with Nagle's algorithm the body waits 40 ms for the head's acknowledgement.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 1024);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/", JdkServer::handle);
        server.start();
        Answers.serving(port);
    }

    private static void handle(HttpExchange exchange) throws IOException {
        String path = exchange.getRequestURI().getPath();
        switch (path) {
            case "/hello" -> answer(exchange, 200, Answers.HELLO);
            case "/echo" -> echo(exchange);
            case "/big" -> answer(exchange, 200, Answers.BIG);
            case "/nothing" -> answer(exchange, 204, null);
            case "/unchanged" -> answer(exchange, 304, null);
            case "/sse" -> events(exchange);
            case "/early" -> early(exchange);
            case "/fork" -> {
                new ProcessBuilder("true").start().onExit().join();
                answer(exchange, 200, Answers.HELLO);
            }
            case "/async" -> BEHIND.execute(() -> {
                try {
                    answer(exchange, 200, Answers.HELLO);
                } catch (IOException gone) {
                    exchange.close();
                }
            });
            default -> {
                if (path.startsWith("/users/")) {
                    answer(exchange, 200, Answers.user(path.substring("/users/".length())));
                } else {
                    answer(exchange, 404, Answers.text("no such route\n"));
                }
            }
        }
    }

    /** Without a body for 204, 304 and HEAD: the server wants -1 as their length. */
    private static void answer(HttpExchange exchange, int status, byte[] body) throws IOException {
        exchange.getRequestBody().readAllBytes();
        if (body == null || exchange.getRequestMethod().equals("HEAD")) {
            if (body != null) {
                exchange.getResponseHeaders().set("Content-Length", Integer.toString(body.length));
            }
            exchange.sendResponseHeaders(status, -1);
        } else {
            exchange.sendResponseHeaders(status, body.length);
            exchange.getResponseBody().write(body);
        }
        exchange.close();
    }

    private static void echo(HttpExchange exchange) throws IOException {
        String length = exchange.getRequestHeaders().getFirst("Content-Length");
        byte[] body = exchange.getRequestBody().readAllBytes();
        // To this server 0 means chunked and -1 means empty.
        exchange.sendResponseHeaders(200, length == null ? 0 : body.length == 0 ? -1 : body.length);
        if (length == null || body.length > 0) {
            exchange.getResponseBody().write(body);
        }
        exchange.close();
    }

    private static void events(HttpExchange exchange) throws IOException {
        exchange.getResponseHeaders().set("Content-Type", "text/event-stream");
        exchange.sendResponseHeaders(200, 0);
        OutputStream out = exchange.getResponseBody();
        for (int number = 1; number <= Answers.EVENTS; number++) {
            if (number > 1) {
                pause();
            }
            out.write(Answers.event(number));
            out.flush();
        }
        exchange.close();
    }

    /** The answer leaves before the body is read; what is left of the body is read at close. */
    private static void early(HttpExchange exchange) throws IOException {
        exchange.sendResponseHeaders(200, Answers.HELLO.length);
        exchange.getResponseBody().write(Answers.HELLO);
        exchange.getResponseBody().flush();
        exchange.close();
    }

    private static void pause() throws IOException {
        try {
            Thread.sleep(Answers.EVENT_PERIOD_MS);
        } catch (InterruptedException stopped) {
            throw new IOException(stopped);
        }
    }
}
