//! On the embedded store, and as a cluster on AWS.

mod bodies;
mod chaos;
mod cli;
mod crash;
mod drain;
mod ingest_crash;
mod keys;
mod operations;
mod shutdown;
mod upload;
