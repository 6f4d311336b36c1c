//! One try at one export: its lease is kept while it is built, and then it gets the end that it deserves.

use crate::held::Held;
use crate::meter::Meter;
use crate::trouble::Trouble;
use crate::{Builder, Taken};
use conveyor_domain::{Export, limits};
use conveyor_store::port::{BlobKey, Stored};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often the last word about an export is said before it is left to its lease.
const SAY_TRIES: u32 = 5;
const SAY_AGAIN: Duration = Duration::from_secs(1);

conveyor_domain::words! {
    /// What became of a try.
    pub enum End {
        Completed = "completed",
        Failed = "failed",
        /// To be tried again.
        PutOff = "put_off",
        /// We were asked to end.
        GivenBack = "given_back",
        /// It is another's by now, or nobody's.
        Lost = "lost",
    }
}

impl Builder {
    /// Builds an export that was taken, until it is there, cannot be, or `stop`.
    pub async fn attempt(&self, taken: Taken, stop: &CancellationToken) -> End {
        let began = Instant::now();
        let meter = Arc::new(Meter::new(taken.export.progress.tasks_total));
        let (end, mut held, mut lost) = (CancellationToken::new(), taken.held.clone(), false);
        let built = {
            let mut building = pin!(self.build(&taken, &meter, &end));
            loop {
                tokio::select! {
                    built = &mut building => break built,
                    // Storage that does not even take an error: what is left there goes with the export.
                    () = tokio::time::sleep(limits::SHUTDOWN_GRACE), if end.is_cancelled() => {
                        break Err(Trouble::BrokenOff);
                    }
                    () = stop.cancelled(), if !end.is_cancelled() => end.cancel(),
                    () = tokio::time::sleep(limits::EXPORT_RENEW_EVERY), if !end.is_cancelled() => {
                        lost = !self.renew(&mut held, &taken.export, &meter).await;
                        if lost {
                            end.cancel();
                        }
                    }
                }
            }
        };
        let ended =
            if lost { self.lost(built).await } else { self.settle(held, &taken.export, &meter, built).await };
        let format = taken.export.format.as_str();
        metrics::counter!("conveyor_exports_total", "format" => format, "end" => ended.as_str()).increment(1);
        metrics::histogram!("conveyor_export_seconds", "format" => format).record(began.elapsed());
        ended
    }

    /// Whether the export is still ours.
    async fn renew(&self, held: &mut Held, export: &Export, meter: &Meter) -> bool {
        let now = self.clock.now();
        if !export.is_there(now) {
            return false;
        }
        match self.put(held, &export.renewed(meter.progress(), now)).await {
            Ok(ours) => ours,
            Err(error) => {
                // Whether it is still ours is decided by the next write that is answered, and the last one is not made on a
                // guess: a build of hours does not go for a store that was away for a minute.
                tracing::warn!(export = %export.id, %error, "the lease of an export was not renewed");
                true
            }
        }
    }

    /// Somebody else has it. If our object came to be all the same, it is nobody's.
    async fn lost(&self, built: Result<(BlobKey, Stored), Trouble>) -> End {
        if let Ok((object, _)) = built
            && let Err(error) = self.backend.blobs.delete(&object).await
        {
            tracing::warn!(%object, %error, "an object that nobody needs stays for as long as its export");
        }
        End::Lost
    }

    async fn settle(
        &self,
        mut held: Held,
        export: &Export,
        meter: &Meter,
        built: Result<(BlobKey, Stored), Trouble>,
    ) -> End {
        let now = self.clock.now();
        let (next, end) = match &built {
            Ok((object, stored)) => {
                (export.completed(object.to_string(), stored.size, meter.tasks()), End::Completed)
            }
            Err(Trouble::BrokenOff) => (export.given_back(now), End::GivenBack),
            Err(Trouble::Final(why)) => (export.failed(why), End::Failed),
            Err(Trouble::Refused) => (export.put_off("its object took no more", now), End::PutOff),
            Err(Trouble::Store(error)) => (export.put_off(Trouble::told(error), now), End::PutOff),
        };
        if let Err(trouble) = &built {
            tracing::warn!(export = %export.id, run = %export.run, tries = export.tries, error = %trouble, "an export was not built");
        }
        let end = if end == End::PutOff && next.is_over() { End::Failed } else { end };
        for _ in 0..SAY_TRIES {
            match self.put(&mut held, &next).await {
                Ok(true) => return end,
                Ok(false) => return self.lost(built).await,
                Err(error) => {
                    tracing::warn!(export = %export.id, %error, "what became of an export was not written");
                    tokio::time::sleep(SAY_AGAIN).await;
                }
            }
        }
        // Perhaps it was: then the object is needed. If not, the lease lapses, and the object goes with the export.
        End::Lost
    }
}
