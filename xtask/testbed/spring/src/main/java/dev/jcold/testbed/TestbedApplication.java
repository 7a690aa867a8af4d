package dev.jcold.testbed;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.context.properties.EnableConfigurationProperties;

/** A service whose cold start is known from inside, so that what jcold sees from outside can be checked. */
@SpringBootApplication
@EnableConfigurationProperties(TestbedProperties.class)
public class TestbedApplication {

    public static void main(String[] args) {
        SpringApplication.run(TestbedApplication.class, args);
    }
}
