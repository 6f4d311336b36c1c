//! On the embedded store alone, or without any server of ours.

mod cli;
mod full_disk;
mod operations;
mod rebuild;
mod repair;
mod shutdown;
mod startup;
mod upload;
