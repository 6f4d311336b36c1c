//! HTTP clients over TLS by ring. reqwest takes its cryptography from the process, and is compiled without any.

use reqwest::ClientBuilder;

/// Starts an HTTP client. Every client of this workspace, tests included, begins here: [`reqwest::Client::builder`] alone
/// panics when it is built in a process without a cryptography provider.
pub fn client_builder() -> ClientBuilder {
    // A provider that something else installed first serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    ClientBuilder::new()
}
