package dev.jcold.testbed;

import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.time.Instant;
import java.util.concurrent.atomic.AtomicLong;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;
import org.springframework.stereotype.Component;
import org.springframework.web.filter.OncePerRequestFilter;

/**
 * Times every request at the outermost point that a servlet can reach. What comes before it (the connector reading the
 * request line, class loading on the worker) it cannot see; jcold can, so jcold's latency is never the smaller one.
 */
@Component
@Order(Ordered.HIGHEST_PRECEDENCE)
@ConditionalOnProperty("testbed.truth-csv")
class TruthFilter extends OncePerRequestFilter {

    private final AtomicLong sequence = new AtomicLong();
    private final TruthLog log;

    TruthFilter(TruthLog log) {
        this.log = log;
    }

    @Override
    protected void doFilterInternal(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
            throws ServletException, IOException {
        long number = sequence.incrementAndGet();
        Instant wall = Instant.now();
        long startNs = System.nanoTime();
        try {
            chain.doFilter(request, response);
        } finally {
            long durationNs = System.nanoTime() - startNs;
            log.add(new TruthLog.Entry(number, request.getMethod(), request.getRequestURI(), response.getStatus(),
                    startNs, wall, durationNs));
        }
    }
}
