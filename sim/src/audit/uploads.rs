//! SPEC 6.9: a slot is its caller's, holds what was put into it last, stays while a job needs it, and goes with everything
//! in it when its time is over.

use crate::audit::read;
use crate::model::Presence;
use crate::violation::{Check, Rule, require};
use crate::world::World;
use conveyor_domain::UploadId;
use conveyor_domain::repair::Subject;
use conveyor_store::Error;
use conveyor_store::port::{Chore, UploadsQuery};
use std::path::Path;

const UPLOADS_MAX: u32 = 1_000;

/// Every slot, against what was put into it and made of it. The jobs were read just before.
pub async fn check(world: &mut World) -> Check {
    let now = world.now();
    for number in 0..world.model.uploads.len() {
        let slot = &world.model.uploads[number];
        let store = &world.truth.store;
        let view = read("an upload", store.upload(slot.upload.caller, slot.id(), now).await)?;
        for stranger in world.callers.iter().filter(|caller| **caller != slot.upload.caller) {
            let seen = read("an upload", store.upload(*stranger, slot.id(), now).await)?;
            require(seen.is_none(), Rule::Isolation, || format!("{stranger} sees {slot}"))?;
        }
        let claimed = world.model.is_claimed(slot);
        let slot = &mut world.model.uploads[number];
        let Some(view) = view else {
            require(slot.presence == Presence::Unknown || slot.may_be_gone(now), Rule::Uploads, || {
                format!("{slot} is lost: it was not aborted and has not expired")
            })?;
            continue;
        };
        require(!slot.has_expired(now) && !slot.abort_known, Rule::Uploads, || {
            format!("{slot} was aborted or has expired, and is there: {view:?}")
        })?;
        slot.presence = Presence::There;
        if let Some(sent) = slot.unanswered.take_if(|sent| view.staged.as_ref() == Some(&sent.staged)) {
            slot.staged = Some(sent);
        }
        let same = view.staged.as_ref() == slot.staged.as_ref().map(|known| &known.staged)
            && (view.spec == slot.upload.spec && view.expires == slot.upload.expires)
            && view.claimed == claimed;
        require(same, Rule::Uploads, || {
            format!("{slot}: {view:?}; claimed: {claimed}; known: {:?}", slot.staged)
        })?;
    }
    Ok(())
}

/// Slots that a sweep is to remove.
pub async fn expired(world: &World) -> Check<Vec<UploadId>> {
    let store = &world.truth.store;
    let due = store.due(Chore::ExpiredUploads { by: world.now() }, UPLOADS_MAX).await;
    let upload = |subject| if let Subject::Upload(upload) = subject { Some(upload) } else { None };
    Ok(read("the expired uploads", due)?.into_iter().filter_map(upload).collect())
}

/// After a sweep that nothing disturbed, slots whose time was over before it are gone, and their objects with them.
pub async fn after_sweep(world: &World, before: &[UploadId]) -> Check {
    let left = expired(world).await?;
    require(!left.iter().any(|upload| before.contains(upload)), Rule::Uploads, || {
        format!("of the uploads {before:?} some are left after a sweep: {left:?}")
    })?;
    let now = world.now();
    for slot in &world.model.uploads {
        // Of the jobs that claimed it, some may be gone only since they were last looked at.
        let over = slot.abort_known || (slot.has_expired(now) && slot.claims.is_empty());
        if !over {
            continue;
        }
        for object in &slot.objects {
            let left = world.truth.blobs.read(object).await;
            require(matches!(left, Err(Error::NotFound)), Rule::Uploads, || {
                format!("{slot} is gone, and {object} is left after a sweep")
            })?;
        }
    }
    Ok(())
}

/// Once every job is gone and every slot has expired: nothing is listed, and no file is left.
pub async fn nothing_left(world: &World, data_dir: &Path) -> Check {
    for caller in &world.callers {
        let query = UploadsQuery { caller: *caller, before: None, limit: 10, look: 10 };
        let listed = read("the uploads", world.truth.store.uploads(query, world.now()).await)?.rows;
        require(listed.is_empty(), Rule::Uploads, || format!("uploads are left: {listed:?}"))?;
    }
    let left = files_under(&data_dir.join("blobs/uploads"));
    require(left.is_empty(), Rule::Uploads, || format!("objects of uploads are left: {left:?}"))
}

fn files_under(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let of = |path: &Path| if path.is_dir() { files_under(path) } else { vec![path.display().to_string()] };
    entries.flatten().flat_map(|entry| of(&entry.path())).collect()
}
