//! Paths to templates.

/// The kubelet's User-Agent (pkg/probe/http/request.go).
pub(super) const PROBER: &str = "kube-probe/";
/// Segments of a path that a template keeps.
const SEGMENTS_MAX: usize = 12;
/// Longest path that may be a gRPC method's.
const GRPC_PATH_MAX: usize = 200;
/// Route of an HTTP/2 request whose path could not be read.
pub const HTTP2: &str = "~http2";

/// The template of a request target: no query, no matrix parameters, and `{id}` for what names one thing of many.
pub fn template(target: &str) -> String {
    let path = match target.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => target,
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let mut template = String::new();
    for (at, segment) in path.split('/').enumerate() {
        if at > SEGMENTS_MAX {
            template.push_str("/**");
            break;
        }
        if at > 0 {
            template.push('/');
        }
        let name = segment.split(';').next().unwrap_or_default();
        template.push_str(if is_id(name) { "{id}" } else { name });
    }
    template
}

/// Numbers, UUIDs, hexadecimal and other long tokens, and whatever holds a person's address.
fn is_id(segment: &str) -> bool {
    let bytes = segment.as_bytes();
    let digits = bytes.iter().filter(|b| b.is_ascii_digit()).count();
    let is_hex = bytes.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-');
    let all = |f: fn(&u8) -> bool| !bytes.is_empty() && bytes.iter().all(f);
    all(|b| b.is_ascii_digit() || *b == b'-' || *b == b'.') && digits > 0
        || (is_hex && bytes.len() >= 8 && digits > 0)
        || (bytes.len() >= 16 && digits > 0)
        || bytes.len() > 40
        || bytes.contains(&b'@')
        || bytes.contains(&b'%')
}

/// Whether a path may be a gRPC method's, `/package.Service/Method`: such a path is its own template.
pub(super) fn may_be_grpc(path: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let parts = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    path.len() <= GRPC_PATH_MAX
        && parts.is_some_and(|(service, method)| service.split('.').all(is_name) && is_name(method))
}

/// Whether the route is that of a gRPC health check, as a kubelet's gRPC probe calls it.
pub(crate) fn is_health_check(route: &str) -> bool {
    matches!(route, "/grpc.health.v1.Health/Check" | "/grpc.health.v1.Health/Watch")
}

/// Whether a Content-Type is that of server-sent events.
pub(super) fn is_event_stream(content_type: &[u8]) -> bool {
    let media = content_type.split(|&b| b == b';').next().unwrap_or_default();
    media.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates() {
        for (target, expect) in [
            ("/", "/"),
            ("/users/1", "/users/{id}"),
            ("/users/1?token=secret", "/users/{id}"),
            ("/v1/orders/6f9619ff-8b86-d011-b42d-00c04fc964ff/items", "/v1/orders/{id}/items"),
            ("/blobs/9e107d9d372bb6826bd81d3542a419d6", "/blobs/{id}"),
            ("/deadbeef", "/deadbeef"),
            ("/reset/ZXhhbXBsZS10b2tlbi0xMjM0NTY", "/reset/{id}"),
            ("/actuator/health/readiness", "/actuator/health/readiness"),
            ("/a;jsessionid=77AB/b", "/a/b"),
            ("/mail/joe@example.org", "/mail/{id}"),
            ("/2024-11-30/report", "/{id}/report"),
            ("http://host:80/x?y", "/x"),
            ("http://host", "/"),
            ("*", "*"),
            (
                "/1/2/3/4/5/6/7/8/9/10/11/12/13/14",
                "/{id}/{id}/{id}/{id}/{id}/{id}/{id}/{id}/{id}/{id}/{id}/{id}/**",
            ),
        ] {
            assert_eq!(template(target), expect, "{target}");
        }
    }
}
