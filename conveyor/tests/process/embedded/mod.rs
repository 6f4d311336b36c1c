//! On the embedded store alone, or without any server of ours.

mod cli;
mod clocks;
mod damage;
mod dispatch;
mod full_disk;
mod hostile;
mod lost_data;
mod operations;
mod rebuild;
mod repair;
mod shutdown;
mod startup;
mod turns;
mod upload;
