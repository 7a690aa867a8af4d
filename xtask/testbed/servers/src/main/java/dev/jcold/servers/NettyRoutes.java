package dev.jcold.servers;

import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.DefaultHttpContent;
import io.netty.handler.codec.http.DefaultHttpResponse;
import io.netty.handler.codec.http.HttpContent;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpMethod;
import io.netty.handler.codec.http.HttpRequest;
import io.netty.handler.codec.http.HttpResponse;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpUtil;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.codec.http.LastHttpContent;
import io.netty.handler.codec.http.QueryStringDecoder;
import io.netty.handler.codec.http.websocketx.TextWebSocketFrame;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/** The routes of {@link NettyServer}, on the objects that its codecs give for HTTP/1.1 and HTTP/2 alike. */
final class NettyRoutes extends SimpleChannelInboundHandler<Object> {

    private static final ExecutorService BEHIND = Executors.newFixedThreadPool(2);
    private static final byte[] EMPTY = new byte[0];

    private boolean head;
    /** What answers once the request has ended; none when it is answered already. */
    private Runnable atEnd;
    private boolean echoing;

    @Override
    protected void channelRead0(ChannelHandlerContext context, Object message) {
        if (message instanceof TextWebSocketFrame frame) {
            context.writeAndFlush(frame.retain());
            return;
        }
        if (message instanceof HttpRequest request) {
            begin(context, request);
        }
        if (message instanceof HttpContent content) {
            if (echoing && content.content().isReadable()) {
                context.writeAndFlush(new DefaultHttpContent(content.content().retain()));
            }
            if (content instanceof LastHttpContent) {
                Runnable answer = atEnd;
                atEnd = null;
                echoing = false;
                answer.run();
            }
        }
    }

    private void begin(ChannelHandlerContext context, HttpRequest request) {
        head = request.method().equals(HttpMethod.HEAD);
        String path = new QueryStringDecoder(request.uri()).path();
        atEnd = switch (path) {
            case "/hello" -> () -> answer(context, 200, Answers.HELLO);
            case "/big" -> () -> answer(context, 200, Answers.BIG);
            case "/nothing" -> () -> answer(context, 204, EMPTY, 0);
            // With the length that a 200 would have: without one this server closes the connection.
            case "/unchanged" -> () -> answer(context, 304, EMPTY, Answers.HELLO.length);
            case "/sse" -> () -> events(context);
            case "/async" -> () -> BEHIND.execute(() -> answer(context, 200, Answers.HELLO));
            case "/early" -> {
                answer(context, 200, Answers.HELLO);
                yield () -> { };
            }
            case "/echo" -> {
                echo(context, request);
                yield () -> context.writeAndFlush(LastHttpContent.EMPTY_LAST_CONTENT);
            }
            default -> path.startsWith("/users/")
                    ? () -> answer(context, 200, Answers.user(path.substring("/users/".length())))
                    : () -> answer(context, 404, Answers.text("no such route\n"));
        };
    }

    private void answer(ChannelHandlerContext context, int status, byte[] body) {
        answer(context, status, head ? EMPTY : body, body.length);
    }

    private void answer(ChannelHandlerContext context, int status, byte[] body, int length) {
        var content = Unpooled.wrappedBuffer(body);
        var response = new DefaultFullHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.valueOf(status), content);
        if (status != 204) {
            response.headers().set(HttpHeaderNames.CONTENT_LENGTH, length);
        }
        context.writeAndFlush(response);
    }

    /** Each piece of the body goes back as it comes. */
    private void echo(ChannelHandlerContext context, HttpRequest request) {
        HttpResponse response = new DefaultHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.OK);
        long length = HttpUtil.getContentLength(request, -1L);
        if (length >= 0) {
            HttpUtil.setContentLength(response, length);
        } else {
            HttpUtil.setTransferEncodingChunked(response, true);
        }
        context.write(response);
        echoing = true;
    }

    private void events(ChannelHandlerContext context) {
        HttpResponse response = new DefaultHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.OK);
        response.headers().set(HttpHeaderNames.CONTENT_TYPE, "text/event-stream");
        HttpUtil.setTransferEncodingChunked(response, true);
        context.write(response);
        event(context, 1);
    }

    private void event(ChannelHandlerContext context, int number) {
        context.writeAndFlush(new DefaultHttpContent(Unpooled.wrappedBuffer(Answers.event(number))));
        if (number == Answers.EVENTS) {
            context.writeAndFlush(LastHttpContent.EMPTY_LAST_CONTENT);
        } else {
            context.executor().schedule(
                    () -> event(context, number + 1), Answers.EVENT_PERIOD_MS, TimeUnit.MILLISECONDS);
        }
    }

    /** A client that goes is no error here. */
    @Override
    public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
        context.close();
    }
}
