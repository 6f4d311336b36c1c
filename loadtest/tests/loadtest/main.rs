//! The real `loadtest` program: its gateway, its proxy, its measurements, its command line.

#![expect(clippy::unwrap_used, reason = "a test whose servers do not come up has failed, in helpers too")]

mod bill;
mod command_line;
mod gate;
mod gateway;
mod proxy;
