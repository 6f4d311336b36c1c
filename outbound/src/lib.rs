//! Where Conveyor connects to when a caller chose the host (SPEC 9, 6.21): which addresses may be reached, and a resolver
//! that lets no other through.
//!
//! This crate must not know what is fetched or sent: the worker and the deliverer share it, and do not know each
//! other.

pub mod address;
mod resolver;

pub use resolver::{CheckedResolver, ResolveError, check_host, check_literal, on_behalf_of};

use reqwest::ClientBuilder;

/// Starts an HTTP client over TLS by ring. reqwest takes its cryptography from the process, and is compiled without any.
/// Every client of this workspace, tests included, begins here: [`reqwest::Client::builder`] alone
/// panics when it is built in a process without a cryptography provider.
pub fn client_builder() -> ClientBuilder {
    // A provider that something else installed first serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    ClientBuilder::new()
}
