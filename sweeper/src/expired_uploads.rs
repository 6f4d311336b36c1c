//! Uploads whose time is over, and that no job needs: marked first, so that none can be submitted any more, then their
//! objects, the row last, so that a crash anywhere resumes.

use crate::{Sweep, or_leave};
use conveyor_domain::UploadId;
use conveyor_store::Result;
use conveyor_store::port::BlobKey;

const UPLOADS_A_SWEEP: u32 = 500;

pub async fn repair(sweep: &Sweep<'_>) -> Result<u64> {
    sweep.backend.store.doom_expired_uploads(sweep.clock.now(), UPLOADS_A_SWEEP).await?;
    let mut removed = 0;
    for upload in sweep.backend.store.doomed_uploads(UPLOADS_A_SWEEP).await? {
        if sweep.stop.is_cancelled() {
            break;
        }
        removed += or_leave("expired_uploads", upload, remove(sweep, upload).await);
    }
    Ok(removed)
}

async fn remove(sweep: &Sweep<'_>, upload: UploadId) -> Result<u64> {
    sweep.backend.blobs.delete_under(&BlobKey::upload_prefix(upload)).await?;
    sweep.backend.store.forget_upload(upload).await?;
    Ok(1)
}
