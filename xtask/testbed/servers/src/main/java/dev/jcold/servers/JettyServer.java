package dev.jcold.servers;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.time.Duration;
import org.eclipse.jetty.http.HttpHeader;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.websocket.api.Session;
import org.eclipse.jetty.websocket.server.WebSocketUpgradeHandler;

/** Jetty 12 without servlets. The argument is its port on loopback. */
public final class JettyServer {

    private JettyServer() {
    }

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        Server server = new Server();
        ServerConnector connector = new ServerConnector(server);
        connector.setHost("127.0.0.1");
        connector.setPort(port);
        connector.setAcceptQueueSize(4096);
        server.addConnector(connector);
        WebSocketUpgradeHandler webSocket = WebSocketUpgradeHandler.from(server, container -> {
            container.setIdleTimeout(Duration.ofMinutes(1));
            container.addMapping("/ws", (request, response, callback) -> new Echo());
        });
        webSocket.setHandler(new Routes());
        server.setHandler(webSocket);
        server.setStopAtShutdown(true);
        server.start();
        Answers.serving(port);
    }

    private static final class Routes extends Handler.Abstract {

        @Override
        public boolean handle(Request request, Response response, Callback callback) throws Exception {
            String path = Request.getPathInContext(request);
            switch (path) {
                case "/hello" -> answer(response, 200, Answers.HELLO, callback);
                case "/echo" -> echo(request, response, callback);
                case "/big" -> answer(response, 200, Answers.BIG, callback);
                case "/nothing" -> answer(response, 204, new byte[0], callback);
                case "/unchanged" -> answer(response, 304, new byte[0], callback);
                case "/sse" -> events(response, callback);
                case "/early" -> answer(response, 200, Answers.HELLO, callback);
                case "/async" -> request.getComponents().getExecutor()
                        .execute(() -> answer(response, 200, Answers.HELLO, callback));
                default -> {
                    if (path.startsWith("/users/")) {
                        answer(response, 200, Answers.user(path.substring("/users/".length())), callback);
                    } else {
                        Response.writeError(request, response, callback, 404);
                    }
                }
            }
            return true;
        }

        private static void answer(Response response, int status, byte[] body, Callback callback) {
            response.setStatus(status);
            if (body.length > 0) {
                response.getHeaders().put(HttpHeader.CONTENT_LENGTH, body.length);
            }
            response.write(true, ByteBuffer.wrap(body), callback);
        }

        private static void echo(Request request, Response response, Callback callback) {
            if (request.getLength() >= 0) {
                response.getHeaders().put(HttpHeader.CONTENT_LENGTH, request.getLength());
            }
            Content.copy(request, response, callback);
        }

        private static void events(Response response, Callback callback) throws Exception {
            response.getHeaders().put(HttpHeader.CONTENT_TYPE, "text/event-stream");
            try (OutputStream out = Content.Sink.asOutputStream(response)) {
                for (int number = 1; number <= Answers.EVENTS; number++) {
                    if (number > 1) {
                        Thread.sleep(Answers.EVENT_PERIOD_MS);
                    }
                    out.write(Answers.event(number));
                    out.flush();
                }
            } catch (IOException gone) {
                callback.failed(gone);
                return;
            }
            callback.succeeded();
        }
    }

    /** A WebSocket that answers each text with itself. */
    public static final class Echo extends Session.Listener.AbstractAutoDemanding {

        @Override
        public void onWebSocketText(String text) {
            getSession().sendText(text, org.eclipse.jetty.websocket.api.Callback.NOOP);
        }
    }
}
