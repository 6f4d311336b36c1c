//! Where Conveyor connects to when a caller chose the host (SPEC 9, 6.21): which addresses may be reached, and a resolver
//! that lets no other through.
//!
//! This crate must not know what is fetched or sent: the worker and the deliverer share it, and do not know each
//! other.

pub mod address;
mod client;
mod resolver;

pub use client::client_builder;
pub use resolver::{CheckedResolver, ResolveError, check_host, check_literal, on_behalf_of};
