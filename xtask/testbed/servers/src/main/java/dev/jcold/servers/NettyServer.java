package dev.jcold.servers;

import io.netty.bootstrap.ServerBootstrap;
import io.netty.channel.ChannelHandler;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelPipeline;
import io.netty.channel.IoHandlerFactory;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.ServerChannel;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.epoll.EpollIoHandler;
import io.netty.channel.epoll.EpollServerSocketChannel;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.http.HttpMessage;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpServerExpectContinueHandler;
import io.netty.handler.codec.http.HttpServerKeepAliveHandler;
import io.netty.handler.codec.http.HttpServerUpgradeHandler;
import io.netty.handler.codec.http.websocketx.WebSocketServerProtocolHandler;
import io.netty.handler.codec.http2.CleartextHttp2ServerUpgradeHandler;
import io.netty.handler.codec.http2.Http2CodecUtil;
import io.netty.handler.codec.http2.Http2FrameCodecBuilder;
import io.netty.handler.codec.http2.Http2MultiplexHandler;
import io.netty.handler.codec.http2.Http2ServerUpgradeCodec;
import io.netty.handler.codec.http2.Http2StreamFrameToHttpObjectCodec;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import io.netty.handler.ssl.SslProvider;
import io.netty.util.AsciiString;
import io.netty.util.ReferenceCountUtil;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.Arrays;
import javax.net.ssl.KeyManagerFactory;

/**
 * Netty without a framework: HTTP/1.1, and HTTP/2 by prior knowledge and by upgrade. The arguments are its port on
 * loopback and `nio` or `epoll`; with a PKCS #12 key store and its password it speaks TLS by its native OpenSSL instead.
 */
public final class NettyServer {

    private NettyServer() {
    }

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        boolean epoll = arguments[1].equals("epoll");
        SslContext tls = arguments.length > 2 ? tls(Path.of(arguments[2]), arguments[3]) : null;
        IoHandlerFactory io = epoll ? EpollIoHandler.newFactory() : NioIoHandler.newFactory();
        Class<? extends ServerChannel> server = epoll ? EpollServerSocketChannel.class : NioServerSocketChannel.class;
        new ServerBootstrap()
                .group(new MultiThreadIoEventLoopGroup(1, io), new MultiThreadIoEventLoopGroup(2, io))
                .channel(server)
                .childHandler(new ChannelInitializer<SocketChannel>() {
                    @Override
                    protected void initChannel(SocketChannel channel) {
                        if (tls == null) {
                            cleartext(channel.pipeline());
                        } else {
                            channel.pipeline().addLast(tls.newHandler(channel.alloc()), new HttpServerCodec());
                            http1(channel.pipeline());
                        }
                    }
                })
                .bind(InetAddress.getLoopbackAddress(), port)
                .sync();
        Answers.serving(port);
    }

    private static SslContext tls(Path keyStore, String password) throws Exception {
        KeyStore keys = KeyStore.getInstance("PKCS12");
        try (var in = Files.newInputStream(keyStore)) {
            keys.load(in, password.toCharArray());
        }
        KeyManagerFactory factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        factory.init(keys, password.toCharArray());
        return SslContextBuilder.forServer(factory).sslProvider(SslProvider.OPENSSL).build();
    }

    /** The first bytes decide: the preface of HTTP/2, or a request of HTTP/1.1, which may ask for the upgrade. */
    private static void cleartext(ChannelPipeline pipeline) {
        HttpServerCodec codec = new HttpServerCodec();
        HttpServerUpgradeHandler upgrade = new HttpServerUpgradeHandler(codec, protocol ->
                AsciiString.contentEquals(Http2CodecUtil.HTTP_UPGRADE_PROTOCOL_NAME, protocol)
                        ? new Http2ServerUpgradeCodec(Http2FrameCodecBuilder.forServer().build(), streams())
                        : null);
        ChannelHandler priorKnowledge = new ChannelInitializer<SocketChannel>() {
            @Override
            protected void initChannel(SocketChannel channel) {
                channel.pipeline().addLast(Http2FrameCodecBuilder.forServer().build(), streams());
            }
        };
        pipeline.addLast(new CleartextHttp2ServerUpgradeHandler(codec, upgrade, priorKnowledge));
        pipeline.addLast(new SimpleChannelInboundHandler<HttpMessage>() {
            @Override
            protected void channelRead0(ChannelHandlerContext context, HttpMessage first) {
                http1(context.pipeline());
                context.fireChannelRead(ReferenceCountUtil.retain(first));
                context.pipeline().remove(this);
            }
        });
    }

    /** Each stream is a channel of its own, in which the same handler sees the objects of HTTP/1.1. */
    private static Http2MultiplexHandler streams() {
        return new Http2MultiplexHandler(new ChannelInitializer<>() {
            @Override
            protected void initChannel(io.netty.channel.Channel stream) {
                stream.pipeline().addLast(new Http2StreamFrameToHttpObjectCodec(true), new NettyRoutes());
            }
        });
    }

    private static void http1(ChannelPipeline pipeline) {
        pipeline.addLast(
                new HttpServerKeepAliveHandler(),
                new HttpServerExpectContinueHandler(),
                new WebSocketServerProtocolHandler("/ws"),
                new NettyRoutes());
    }
}
