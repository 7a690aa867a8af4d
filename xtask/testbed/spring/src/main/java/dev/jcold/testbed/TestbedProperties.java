package dev.jcold.testbed;

import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * What a run of the testbed can vary. Lazy initialisation is Spring's own {@code spring.main.lazy-initialization}.
 *
 * @param truthCsv file that gets one line for each request; none when absent
 * @param stubUrl base address of the HTTP service that {@code /external} calls
 * @param runnerSleep how long a runner holds back readiness, as in {@code 2s}
 * @param eagerPool opens the connection pool during start-up instead of in the first request that needs it
 * @param warmupPath path that the service calls on itself, over HTTP, before it is ready; none when absent
 */
@ConfigurationProperties("testbed")
public record TestbedProperties(
        Path truthCsv,
        @DefaultValue("http://127.0.0.1:8089") URI stubUrl,
        @DefaultValue("0s") Duration runnerSleep,
        @DefaultValue("false") boolean eagerPool,
        String warmupPath) {
}
