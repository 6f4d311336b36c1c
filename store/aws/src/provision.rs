//! Creates what the backend lives in. Safe to repeat, by several at once.

use crate::client::{Clients, Settings};
use crate::{objects, queue, table};
use conveyor_store::{Error, Result};

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

/// Everything is checked before anything is created: a bad name or somebody else's bucket leaves nothing behind. All faults
/// are reported at once.
pub async fn provision_with(clients: &Clients, settings: &Settings) -> Result<Provisioned> {
    let named = [
        table::check_name(&settings.table),
        queue::check_names(settings),
        objects::check_name(&settings.bucket),
    ];
    all(named)?;
    let (found_table, found_bucket) = tokio::join!(
        table::check(&clients.dynamodb, &settings.table),
        objects::check(&clients.s3, &settings.bucket)
    );
    all([found_table, found_bucket])?;
    Ok(Provisioned {
        table: table::provision(&clients.dynamodb, &settings.table).await?,
        queues: queue::provision(&clients.sqs, settings).await?,
        bucket: objects::provision(&clients.s3, settings).await?,
    })
}

/// What conflicts, as one error; a call that failed comes first, since it may hide another conflict.
fn all<const N: usize>(checks: [Result<()>; N]) -> Result<()> {
    let mut conflicts = Vec::new();
    for check in checks {
        match check {
            Ok(()) => {}
            Err(Error::Conflict(why)) => conflicts.push(why),
            Err(error) => return Err(error),
        }
    }
    if conflicts.is_empty() { Ok(()) } else { Err(Error::Conflict(conflicts.join("; "))) }
}
