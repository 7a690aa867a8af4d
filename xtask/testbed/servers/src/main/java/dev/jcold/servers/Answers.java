package dev.jcold.servers;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** What every server answers, so that one client drives them all. */
final class Answers {

    static final byte[] HELLO = text("hello\n");

    /** Larger than any buffer on the way, so that it leaves in many writes. */
    static final byte[] BIG = big();

    static final int EVENTS = 5;
    static final int EVENT_PERIOD_MS = 50;

    private Answers() {
    }

    static byte[] user(String id) {
        return text("{\"id\":\"" + id + "\",\"name\":\"user " + id + "\"}");
    }

    /** One server-sent event, counted from 1. */
    static byte[] event(int number) {
        return text("data: event " + number + "\n\n");
    }

    static byte[] text(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** The last thing before the first request: what starts a server waits for this line. */
    static void serving(int port) {
        System.out.println("serving on " + port);
    }

    private static byte[] big() {
        byte[] big = new byte[4 << 20];
        Arrays.fill(big, (byte) 'b');
        return big;
    }
}
