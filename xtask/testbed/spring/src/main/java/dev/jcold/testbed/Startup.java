package dev.jcold.testbed;

import java.net.HttpURLConnection;
import java.net.URI;
import java.sql.Connection;
import javax.sql.DataSource;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.boot.ApplicationRunner;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.web.server.context.WebServerApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Lazy;
import org.springframework.core.annotation.Order;

/** What happens between the context's refresh and readiness; runners run with the port already open. */
@Configuration(proxyBeanMethods = false)
@Lazy(false)
class Startup {

    private static final Logger log = LoggerFactory.getLogger(Startup.class);

    /** Pays for the pool before the port is open. */
    @Bean
    @Lazy(false)
    @ConditionalOnProperty("testbed.eager-pool")
    SmartInitializingSingleton eagerPool(DataSource dataSource) {
        return () -> {
            try (Connection connection = dataSource.getConnection()) {
                log.info("pool opened before the port, to {}", connection.getMetaData().getURL());
            } catch (java.sql.SQLException e) {
                throw new IllegalStateException("testbed.eager-pool: no connection", e);
            }
        };
    }

    @Bean
    @Order(1)
    @ConditionalOnProperty("testbed.runner-sleep")
    ApplicationRunner sleeper(TestbedProperties properties) {
        return arguments -> Thread.sleep(properties.runnerSleep().toMillis());
    }

    /** One request to the service itself, through its own port, so that users do not pay for the first. */
    @Bean
    @Order(2)
    @ConditionalOnProperty("testbed.warmup-path")
    ApplicationRunner selfWarmUp(TestbedProperties properties, WebServerApplicationContext context) {
        return arguments -> {
            URI uri = URI.create("http://127.0.0.1:" + context.getWebServer().getPort() + properties.warmupPath());
            HttpURLConnection connection = (HttpURLConnection) uri.toURL().openConnection();
            connection.setConnectTimeout(5_000);
            connection.setReadTimeout(30_000);
            int status = connection.getResponseCode();
            connection.disconnect();
            if (status >= 400) {
                throw new IllegalStateException("testbed.warmup-path: " + uri + " answered " + status);
            }
            log.info("warmed up {}", uri);
        };
    }
}
