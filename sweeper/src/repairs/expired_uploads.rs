//! Uploads whose time is over, and that no job needs: marked first, so that none can be submitted any more, then their
//! objects, the row last, so that a crash anywhere resumes (SPEC 6.9).

use crate::repair::{About, Fixed, Found, Look, Pace, Repair, Scope, misplaced, page_due};
use crate::sweep::Sweep;
use async_trait::async_trait;
use conveyor_domain::repair::{Finding, Kind, Subject};
use conveyor_store::Result;
use conveyor_store::port::{BlobKey, Chore};

pub(super) struct ExpiredUploads;

#[async_trait]
impl Repair for ExpiredUploads {
    fn about(&self) -> About {
        About::new("expired_uploads", Kind::Upkeep, Pace::Slowly)
    }

    async fn find(&self, look: &Look<'_>, from: Option<String>) -> Result<Found> {
        // One that a job holds is not expired.
        if look.scope != Scope::All {
            return Ok(Found::default());
        }
        let by = look.removal_time().await?;
        page_due(look, Chore::ExpiredUploads { by }, from, |subject| {
            self.about().finding(
                subject,
                "its time is over, or it was aborted, and no job needs it",
                "removes its objects, then the upload",
            )
        })
        .await
    }

    async fn fix(&self, sweep: &Sweep<'_>, finding: &Finding) -> Result<Fixed> {
        let Subject::Upload(upload) = finding.subject else { return Err(misplaced(finding)) };
        let backend = sweep.backend;
        if !backend.store.doom_upload(upload, None, sweep.removal_time().await?).await? {
            return Ok(Fixed::NOTHING);
        }
        backend.blobs.delete_under(&BlobKey::upload_prefix(upload)).await?;
        backend.store.forget_upload(upload).await?;
        Ok(Fixed::ONE)
    }
}
