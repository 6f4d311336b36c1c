//! AWS-compatible servers for tests and load tests: installed from public registries, started as child processes on
//! loopback, and ended with whoever started them.
//!
//! Knows nothing of Conveyor. A caller asks for a [`Server`], or for an [`Environment`] to give to a process under test:
//!
//! ```no_run
//! use conveyor_aws_servers::{Combination, Environment, Installation, Kind, Server};
//! # fn main() -> anyhow::Result<()> {
//! // One server, ours alone, ended when dropped.
//! let dynamodb = Server::start(&Installation::find()?, Kind::Dynoxide)?;
//! println!("{}", dynamodb.url());
//! // The servers that all tests of this process share.
//! let environment = Environment::shared(Combination::Default)?;
//! std::process::Command::new("conveyor").envs(environment.variables());
//! # Ok(())
//! # }
//! ```
//!
//! Localstack needs a newer Python than some machines have. [`default_pair`] says which servers the default combination
//! is made of here, and why; tests that are about one server have its name in theirs, so that they can be left out.
//!
//! Starting takes seconds, so test binaries that run one after the other can share servers as well: where a variable such
//! as `CONVEYOR_TEST_AWS_DYNOXIDE_URL` (see [`Kind::url_variable`]) names a running server, [`shared`] uses that one.

mod environment;
mod install;
mod pair;
mod servers;
pub mod shared;
mod start;

pub use environment::{Combination, Environment, Running};
pub use install::{Installation, Installed, Need};
pub use pair::{Pair, SQS_S3_VARIABLE, default_pair};
pub use servers::{Kind, Service};
pub use start::Server;

/// What the servers need of the machine, beyond Python and what is installed for each.
pub mod needs {
    pub use crate::install::system::{JAVA, NPM};
}
