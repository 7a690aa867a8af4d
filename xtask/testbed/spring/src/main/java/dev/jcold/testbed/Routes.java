package dev.jcold.testbed;

import org.springframework.http.HttpStatus;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.client.RestClient;
import org.springframework.web.server.ResponseStatusException;

/** Three routes, each with one more thing that its first request may have to pay for. */
@RestController
class Routes {

    private final JdbcClient jdbc;
    private final RestClient stub;

    Routes(JdbcClient jdbc, RestClient.Builder restClient, TestbedProperties properties) {
        this.jdbc = jdbc;
        this.stub = restClient.baseUrl(properties.stubUrl()).build();
    }

    record Greeting(String message) {
    }

    record User(long id, String name, String email) {
    }

    /** Nothing but the route's own first run. */
    @GetMapping("/hello")
    Greeting hello() {
        return new Greeting("hello");
    }

    /** The database, and with a lazy pool the pool's creation. */
    @GetMapping("/users/{id}")
    User user(@PathVariable("id") long id) {
        return jdbc.sql("select id, name, email from users where id = :id")
                .param("id", id)
                .query(User.class)
                .optional()
                .orElseThrow(() -> new ResponseStatusException(HttpStatus.NOT_FOUND, "no user " + id));
    }

    /** The HTTP client and its first connection. */
    @GetMapping("/external")
    Greeting external() {
        return stub.get().uri("/greeting").retrieve().body(Greeting.class);
    }
}
