package dev.jcold.servers;

import io.grpc.InsecureServerCredentials;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.services.HealthStatusManager;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;

/**
 * grpc-java on its Netty, cleartext, with the health service. A message is plain text, so that no compiler of protocol
 * buffers is needed. The argument is its port on loopback.
 */
public final class GrpcServer {

    private static final String SERVICE = "jcold.testbed.Greeter";

    private GrpcServer() {
    }

    public static void main(String[] arguments) throws IOException, InterruptedException {
        int port = Integer.parseInt(arguments[0]);
        InetSocketAddress address = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
        ServerServiceDefinition greeter = ServerServiceDefinition.builder(SERVICE)
                .addMethod(method("Hello", MethodType.UNARY), ServerCalls.asyncUnaryCall(GrpcServer::hello))
                .addMethod(method("Count", MethodType.SERVER_STREAMING), ServerCalls.asyncServerStreamingCall(GrpcServer::count))
                .addMethod(method("Fail", MethodType.UNARY), ServerCalls.asyncUnaryCall(GrpcServer::fail))
                .build();
        Server server = NettyServerBuilder.forAddress(address, InsecureServerCredentials.create())
                .addService(greeter)
                .addService(new HealthStatusManager().getHealthService())
                .build()
                .start();
        Answers.serving(port);
        server.awaitTermination();
    }

    private static void hello(String name, StreamObserver<String> answer) {
        answer.onNext("hello " + name);
        answer.onCompleted();
    }

    private static void count(String ignored, StreamObserver<String> answer) {
        for (int number = 1; number <= Answers.EVENTS; number++) {
            answer.onNext(Integer.toString(number));
        }
        answer.onCompleted();
    }

    private static void fail(String ignored, StreamObserver<String> answer) {
        answer.onError(io.grpc.Status.FAILED_PRECONDITION.withDescription("as asked").asRuntimeException());
    }

    private static MethodDescriptor<String, String> method(String name, MethodType type) {
        return MethodDescriptor.<String, String>newBuilder()
                .setFullMethodName(MethodDescriptor.generateFullMethodName(SERVICE, name))
                .setType(type)
                .setRequestMarshaller(new Text())
                .setResponseMarshaller(new Text())
                .build();
    }

    private static final class Text implements MethodDescriptor.Marshaller<String> {

        @Override
        public InputStream stream(String text) {
            return new ByteArrayInputStream(Answers.text(text));
        }

        @Override
        public String parse(InputStream bytes) {
            try {
                return new String(bytes.readAllBytes(), StandardCharsets.UTF_8);
            } catch (IOException broken) {
                throw new UncheckedIOException(broken);
            }
        }
    }
}
