package dev.jcold.servers;

import io.undertow.Handlers;
import io.undertow.Undertow;
import io.undertow.UndertowOptions;
import io.undertow.server.HttpServerExchange;
import io.undertow.server.handlers.BlockingHandler;
import io.undertow.server.handlers.PathHandler;
import io.undertow.util.Headers;
import io.undertow.websockets.core.AbstractReceiveListener;
import io.undertow.websockets.core.BufferedTextMessage;
import io.undertow.websockets.core.WebSocketChannel;
import io.undertow.websockets.core.WebSockets;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Undertow: what is quick is answered on its I/O threads, what blocks on its workers. The argument is its port on loopback. */
public final class UndertowServer {

    private static final ExecutorService BEHIND = Executors.newFixedThreadPool(2);

    private UndertowServer() {
    }

    public static void main(String[] arguments) {
        int port = Integer.parseInt(arguments[0]);
        PathHandler routes = Handlers.path()
                .addExactPath("/hello", exchange -> answer(exchange, Answers.HELLO))
                .addExactPath("/echo", Handlers.httpContinueRead(new BlockingHandler(UndertowServer::echo)))
                .addExactPath("/big", exchange -> answer(exchange, Answers.BIG))
                .addExactPath("/nothing", exchange -> exchange.setStatusCode(204).endExchange())
                .addExactPath("/unchanged", exchange -> exchange.setStatusCode(304).endExchange())
                .addExactPath("/sse", new BlockingHandler(UndertowServer::events))
                .addExactPath("/early", exchange -> answer(exchange, Answers.HELLO))
                .addExactPath("/async", exchange -> exchange.dispatch(BEHIND, () -> answer(exchange, Answers.HELLO)))
                .addExactPath("/ws", Handlers.websocket((exchange, channel) -> {
                    channel.getReceiveSetter().set(new Echo());
                    channel.resumeReceives();
                }))
                .addPrefixPath("/users", exchange -> answer(exchange, Answers.user(exchange.getRelativePath().substring(1))));
        Undertow.builder()
                .addHttpListener(port, "127.0.0.1")
                .setServerOption(UndertowOptions.ENABLE_HTTP2, true)
                .setServerOption(UndertowOptions.MAX_ENTITY_SIZE, -1L)
                .setHandler(routes)
                .build()
                .start();
        Answers.serving(port);
    }

    private static void answer(HttpServerExchange exchange, byte[] body) {
        exchange.setResponseContentLength(body.length);
        exchange.getResponseSender().send(ByteBuffer.wrap(body));
    }

    private static void echo(HttpServerExchange exchange) throws IOException {
        byte[] body = exchange.getInputStream().readAllBytes();
        if (exchange.getRequestContentLength() >= 0) {
            exchange.setResponseContentLength(body.length);
        } else {
            exchange.getResponseHeaders().put(Headers.TRANSFER_ENCODING, "chunked");
        }
        exchange.getOutputStream().write(body);
    }

    private static void events(HttpServerExchange exchange) throws Exception {
        exchange.getResponseHeaders().put(Headers.CONTENT_TYPE, "text/event-stream");
        OutputStream out = exchange.getOutputStream();
        for (int number = 1; number <= Answers.EVENTS; number++) {
            if (number > 1) {
                Thread.sleep(Answers.EVENT_PERIOD_MS);
            }
            out.write(Answers.event(number));
            out.flush();
        }
    }

    /** A WebSocket that answers each text with itself. */
    private static final class Echo extends AbstractReceiveListener {

        @Override
        protected void onFullTextMessage(WebSocketChannel channel, BufferedTextMessage message) {
            WebSockets.sendText(message.getData(), channel, null);
        }
    }
}
