//! What happens to staged objects behind everybody's back: other bytes under the key of a list that was accepted. It may
//! cost the list, and never mixes two (SPEC 3.6).

use crate::actors::caller::stage::key_of;
use crate::audit::read;
use crate::model::{JobModel, Presence};
use crate::violation::Check;
use crate::world::World;
use bytes::Bytes;
use futures::StreamExt;

pub async fn tamper(world: &mut World) -> Check {
    let reading = |job: &&JobModel| job.presence == Presence::There && job.is_ingesting();
    let jobs: Vec<&JobModel> = world.model.jobs.iter().filter(reading).collect();
    let Some(job) = world.dice.pick(&jobs).map(|job| (*job).clone()) else { return Ok(()) };
    let Some(list) = &job.list else { return Ok(()) };
    let staged = list.source.staged.clone();
    // A job that is on its way out may have given up its claim: an object would be left behind.
    let view = read("a run", world.truth.store.run(job.key.job, job.key.run).await)?;
    if view.is_none_or(|view| !view.run.is_ingesting()) || list.list.bytes.is_empty() {
        return Ok(());
    }
    // As many bytes as before, so that only their digest tells.
    let other: Bytes = list.list.bytes.iter().map(|byte| byte ^ 1).collect();
    // Whoever was made of the same bytes reads what is there now.
    for job in &mut world.model.jobs {
        if let Some(list) = job.list.as_mut().filter(|list| list.source.staged == staged) {
            list.tampered = true;
        }
    }
    world.model.tampered.insert(staged.object.clone());
    world.note(format!("  fault: other bytes are written over the list of {job}"));
    world.tally.tampered += 1;
    let stream = futures::stream::iter([Ok(other)]).boxed();
    read("an object", world.truth.blobs.put_stream(&key_of(&staged), stream).await).map(drop)
}
