//! Where a collector is.

use std::time::Duration;

use tonic::transport::Endpoint;

/// A collector's address that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{address:?} is no address of a collector ({reason}): write it as http://HOST:PORT")]
pub struct AddressError {
    /// The text.
    address: String,
    /// What is wrong with it.
    reason: String,
}

/// Reads a collector's address, `http://HOST:PORT` or `HOST:PORT`.
///
/// # Errors
///
/// When it is no address, or asks for TLS, which is not built in.
pub fn endpoint(address: &str) -> Result<Endpoint, AddressError> {
    let error = |reason: String| AddressError { address: address.to_owned(), reason };
    let url = match address.split_once("://") {
        None => format!("http://{address}"),
        Some(("http", _)) => address.to_owned(),
        Some((scheme, _)) => return Err(error(format!("{scheme} is not supported"))),
    };
    let endpoint = Endpoint::from_shared(url).map_err(|source| error(source.to_string()))?;
    if endpoint.uri().host().is_none_or(str::is_empty) {
        return Err(error("the host is missing".into()));
    }
    Ok(endpoint.connect_timeout(Duration::from_secs(5)))
}

/// The innermost cause of an error: where gRPC's layers only say that something failed, it says what.
pub fn cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// What a failed call says, in one line: the server's words, or the innermost cause when it is the connection.
pub fn reason(status: &tonic::Status) -> String {
    let text = match std::error::Error::source(status) {
        Some(source) => cause(source),
        None if status.message().is_empty() => status.code().description().to_owned(),
        None => status.message().to_owned(),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::endpoint;

    #[test]
    fn a_scheme_may_be_left_out() {
        assert_eq!(endpoint("127.0.0.1:4600").unwrap().uri(), "http://127.0.0.1:4600/");
        assert_eq!(endpoint("http://collector:4600").unwrap().uri(), "http://collector:4600/");
    }

    #[test]
    fn what_is_no_address_says_how_one_looks() {
        for text in ["", "https://collector:4600", "unix:///run/x", "a b", "http://"] {
            let error = endpoint(text).unwrap_err().to_string();
            assert!(error.contains("http://HOST:PORT") && error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
