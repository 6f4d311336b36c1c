//! The loop of a builder.

use crate::Builder;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How often an idle builder looks for what is due. Whoever asks for an export polls it every two seconds.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What one look looks at.
const LOOK_MAX: u32 = 50;

/// Builds and removes exports until `stop`. Those that are under way then are given back.
pub async fn run(builder: Arc<Builder>, stop: CancellationToken) {
    let mut working = JoinSet::new();
    while !stop.is_cancelled() {
        look(&builder, &mut working, &stop).await;
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
            Some(_) = working.join_next(), if !working.is_empty() => {}
        }
        while working.try_join_next().is_some() {}
    }
    while working.join_next().await.is_some() {}
}

async fn look(builder: &Arc<Builder>, working: &mut JoinSet<()>, stop: &CancellationToken) {
    let most = builder.config.exports_max as usize;
    if working.len() >= most {
        return;
    }
    let due = match builder.due(LOOK_MAX).await {
        Ok(due) => due,
        Err(error) => {
            tracing::warn!(%error, "exports that are due cannot be found");
            return;
        }
    };
    for record in due {
        if working.len() >= most || stop.is_cancelled() {
            return;
        }
        let id = record.key.id.clone();
        match builder.take(record).await {
            Ok(None) => {}
            Ok(Some(taken)) => {
                let (builder, stop) = (builder.clone(), stop.clone());
                working.spawn(async move {
                    builder.attempt(taken, &stop).await;
                });
            }
            // The others may fare better; this one is due again at the next look.
            Err(error) => tracing::warn!(export = id, %error, "an export could not be looked at"),
        }
    }
}
