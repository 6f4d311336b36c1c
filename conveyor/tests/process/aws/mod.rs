//! Roles as processes of their own on AWS-compatible servers: killed, signalled, and cut off from the services.

mod clocks;
mod coupling;
mod deployment;
mod duplicates;
mod faults;
mod kills;
mod rebuild;
mod repair;
mod setup;
mod shutdown;

use deployment::{Deployment, ROLES, servers};
