package dev.jcold.testbed;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.file.Files;
import java.time.Instant;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.stereotype.Component;

/**
 * The ground truth as a CSV file. A request only appends to a queue: one background thread formats and writes, so that
 * measuring does not disturb what is measured. The bean is destroyed after the web server has stopped, and what is
 * queued then is written, so the file of a service that got SIGTERM is complete.
 */
@Component
@ConditionalOnProperty("testbed.truth-csv")
class TruthLog implements DisposableBean {

    private static final String HEADER =
            "sequence,method,path,status,start_nanotime_ns,start_epoch_ns,duration_ns\n";
    private static final long FLUSH_MS = 250;

    /** One request; {@code startNs} and {@code durationNs} are of System.nanoTime. */
    record Entry(long sequence, String method, String path, int status, long startNs, Instant wall, long durationNs) {
    }

    private final Queue<Entry> queue = new ConcurrentLinkedQueue<>();
    private final Writer csv;
    private final ScheduledExecutorService flusher = Executors.newSingleThreadScheduledExecutor(task -> {
        Thread thread = new Thread(task, "truth-log");
        thread.setDaemon(true);
        return thread;
    });

    TruthLog(TestbedProperties properties) throws IOException {
        csv = Files.newBufferedWriter(properties.truthCsv());
        csv.write(HEADER);
        csv.flush();
        flusher.scheduleWithFixedDelay(this::flush, FLUSH_MS, FLUSH_MS, TimeUnit.MILLISECONDS);
    }

    void add(Entry entry) {
        queue.add(entry);
    }

    /** Only ever run by one thread at a time: the flusher's, and after its end the one that closes. */
    private void flush() {
        try {
            StringBuilder lines = new StringBuilder();
            for (Entry e = queue.poll(); e != null; e = queue.poll()) {
                long epochNs = e.wall().getEpochSecond() * 1_000_000_000L + e.wall().getNano();
                lines.append(e.sequence()).append(',').append(e.method()).append(',').append(e.path()).append(',')
                        .append(e.status()).append(',').append(e.startNs()).append(',').append(epochNs).append(',')
                        .append(e.durationNs()).append('\n');
            }
            if (!lines.isEmpty()) {
                csv.append(lines);
                csv.flush();
            }
        } catch (IOException e) {
            throw new UncheckedIOException("testbed.truth-csv", e);
        }
    }

    @Override
    public void destroy() throws Exception {
        flusher.shutdown();
        flusher.awaitTermination(5, TimeUnit.SECONDS);
        flush();
        csv.close();
    }
}
