//! Creates what the backend lives in. Safe to repeat, by several at once.

use crate::client::{Clients, Settings};
use crate::{objects, queue, table};
use conveyor_store::Result;

/// What was not there and is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provisioned {
    pub table: bool,
    pub queues: bool,
    pub bucket: bool,
}

pub async fn provision(settings: &Settings) -> Result<Provisioned> {
    provision_with(&Clients::connect(settings).await, settings).await
}

pub async fn provision_with(clients: &Clients, settings: &Settings) -> Result<Provisioned> {
    Ok(Provisioned {
        table: table::provision(&clients.dynamodb, &settings.table).await?,
        queues: queue::provision(&clients.sqs, settings).await?,
        bucket: objects::provision(&clients.s3, settings).await?,
    })
}
