package dev.jcold.testbed;

import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.Callable;
import org.springframework.http.HttpStatus;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;

/** The routes that differ on the wire, the same as on the testbed's other servers; none needs the database. */
@RestController
class Wire {

    private static final int EVENTS = 5;
    private static final int EVENT_PERIOD_MS = 50;
    private static final byte[] BIG = new byte[4 << 20];

    static {
        Arrays.fill(BIG, (byte) 'b');
    }

    /** With the length of the request's body, or chunked as that was. */
    @PostMapping("/echo")
    void echo(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.setContentType("application/octet-stream");
        if (request.getContentLengthLong() >= 0) {
            response.setContentLengthLong(request.getContentLengthLong());
        }
        // Read whole first: once as much is written as was announced, Tomcat closes the request's side as well.
        byte[] body = request.getInputStream().readAllBytes();
        response.getOutputStream().write(body);
        response.flushBuffer();
    }

    /** Larger than any buffer on the way. */
    @GetMapping("/big")
    byte[] big() {
        return BIG;
    }

    @GetMapping("/nothing")
    @ResponseStatus(HttpStatus.NO_CONTENT)
    void nothing() {
    }

    @GetMapping("/unchanged")
    ResponseEntity<Void> unchanged() {
        return ResponseEntity.status(HttpStatus.NOT_MODIFIED).build();
    }

    @GetMapping("/sse")
    void events(HttpServletResponse response) throws IOException, InterruptedException {
        response.setContentType("text/event-stream");
        for (int number = 1; number <= EVENTS; number++) {
            if (number > 1) {
                Thread.sleep(EVENT_PERIOD_MS);
            }
            response.getOutputStream().write(("data: event " + number + "\n\n").getBytes(StandardCharsets.UTF_8));
            response.flushBuffer();
        }
    }

    /** Answers before it has read the request's body, which it never does. */
    @RequestMapping("/early")
    void early(HttpServletResponse response) throws IOException {
        response.setContentLength(6);
        response.getOutputStream().write("hello\n".getBytes(StandardCharsets.UTF_8));
        response.flushBuffer();
    }

    /** Another thread answers. */
    @GetMapping("/async")
    Callable<String> async() {
        return () -> "hello\n";
    }
}
