//! Staging a list and having a job accepted of it (SPEC 6.9, 6.10), step by step as the API does it for its callers.

use super::steer::draw_spec;
use super::{Caller, Request, wrong};
use crate::actors::echo::Operation;
use crate::audit::read;
use crate::faults::{Answer, answer};
use crate::lists::List;
use crate::model::Presence;
use crate::model::source_of;
use crate::uploads::{StagedList, UploadModel};
use crate::violation::{Check, Rule, require};
use crate::world::World;
use conveyor_domain::ingest::Source;
use conveyor_domain::{
    JobId, ListSpec, OnInvalidRows, Refusal, RunId, Staged, Timestamp, Upload, UploadId, WorkerId, lifecycle,
    limits,
};
use conveyor_store::Error;
use conveyor_store::port::{BlobKey, Submission};
use futures::StreamExt;

impl Caller {
    /// Mostly a slot that lives for long; now and then one that expires before anything comes of it.
    pub(super) fn new_upload(&self, world: &mut World) -> (Upload, List) {
        let (dice, now) = (world.dice.clone(), world.now());
        let list = draw_list(world);
        let ttl = if dice.chance(0.2) { dice.ms(20_000, 200_000) } else { dice.ms(600_000, 3_600_000) };
        let upload = Upload {
            expires: now.after(ttl),
            ..Upload::new(UploadId::new(now, dice.entropy()), self.id, list.spec.clone(), now)
        };
        let number = world.model.uploads.len();
        world.model.uploads.push(UploadModel::new(number, upload.clone()));
        (upload, list)
    }

    pub(super) async fn make_slot(
        &self,
        world: &mut World,
        upload: Upload,
        list: List,
    ) -> Check<Option<Request>> {
        let created = world.backend.store.create_upload(upload.clone(), limits::UPLOADS_MAX).await;
        let outcome = answer("create_upload", created)?;
        let name = world.model.upload(upload.id).to_string();
        match outcome {
            Answer::Got(()) => {
                world.model.upload(upload.id).presence = Presence::There;
                world.note(format!("caller {}: {name} is made, {}", self.number, upload.id));
                Ok(Some(Request::Send { upload: upload.id, list }))
            }
            Answer::Unknown => Ok(Some(Request::MakeSlot { upload, list })),
            Answer::Refused(_) | Answer::NotFound => Err(wrong(&name, "a new slot", &outcome)),
        }
    }

    /// The bytes go into a new object; nobody refers to it yet.
    pub(super) async fn send(&self, world: &mut World, id: UploadId, list: List) -> Check<Option<Request>> {
        let now = world.now();
        let name = world.model.upload(id).to_string();
        match answer("upload", world.backend.store.upload(self.id, id, now).await)? {
            // Refused already, unless the job was made of it only after this look.
            Answer::Got(Some(upload)) if upload.claimed && world.dice.chance(0.5) => return Ok(None),
            Answer::Got(Some(_)) => {}
            Answer::Got(None) | Answer::NotFound => return self.slot_is_missing(world, id),
            Answer::Unknown => return Ok(Some(Request::Send { upload: id, list })),
            outcome @ Answer::Refused(_) => return Err(wrong(&name, "a read", &outcome)),
        }
        let key = BlobKey::upload(id, WorkerId::new(now, world.dice.entropy()), 0);
        world.model.upload(id).objects.push(key.clone());
        let middle = list.bytes.len() / 2;
        let pieces = [Ok(list.bytes.slice(..middle)), Ok(list.bytes.slice(middle..))];
        let written = world.backend.blobs.put_stream(&key, futures::stream::iter(pieces).boxed()).await;
        match answer("put_stream", written)? {
            Answer::Got(stored) => {
                world.note(format!("caller {}: {} bytes for {name}", self.number, stored.size));
                let whole = stored.size == list.bytes.len() as u64 && stored.etag == list.etag();
                require(whole, Rule::Source, || format!("{name}: the bytes were stored as {stored:?}"))?;
                let staged = Staged::new(key.to_string(), stored.size, stored.etag);
                Ok(Some(Request::Stage { upload: id, staged: StagedList { staged, list } }))
            }
            // Sent again, under another key: no key is written twice.
            Answer::Unknown => Ok(Some(Request::Send { upload: id, list })),
            outcome @ (Answer::Refused(_) | Answer::NotFound) => {
                Err(wrong(&name, "a stream of bytes", &outcome))
            }
        }
    }

    /// Makes the object the slot's; what it replaces goes.
    pub(super) async fn stage(
        &self,
        world: &mut World,
        id: UploadId,
        sent: StagedList,
    ) -> Check<Option<Request>> {
        world.model.upload(id).unanswered = Some(sent.clone());
        let now = world.now();
        let staged = world.backend.store.put_staged(id, sent.staged.clone(), None, now).await;
        let outcome = answer("put_staged", staged)?;
        let claimed = world.model.may_be_claimed(id);
        let upload = world.model.upload(id);
        let name = upload.to_string();
        let unwanted = match outcome {
            Answer::Got(replaced) => {
                upload.unanswered = None;
                upload.staged = Some(sent);
                world.note(format!("caller {}: {name} is staged", self.number));
                replaced
            }
            Answer::Refused(Refusal::UploadClaimed) if claimed => {
                upload.unanswered = None;
                Some(sent.staged)
            }
            Answer::NotFound => {
                upload.unanswered = None;
                self.slot_is_missing(world, id)?;
                Some(sent.staged)
            }
            Answer::Unknown => return Ok(Some(Request::Stage { upload: id, staged: sent })),
            Answer::Refused(_) => return Err(wrong(&name, "a put", &outcome)),
        };
        if let Some(unwanted) = unwanted {
            // Not answered: it goes with its slot.
            answer("delete", world.backend.blobs.delete(&key_of(&unwanted)).await)?;
            world.note(format!("caller {}: an object of {name} is dropped", self.number));
        }
        Ok(None)
    }

    /// Pins what is staged now.
    pub(super) fn new_acceptance(&self, world: &mut World, id: UploadId) -> Option<Submission> {
        let (dice, now) = (world.dice.clone(), world.now());
        let StagedList { staged, list } = world.model.upload(id).staged.clone()?;
        let (job, run) = (JobId::new(now, dice.entropy()), RunId::new(now, dice.entropy()));
        let spec = draw_spec(&dice);
        let rows = lifecycle::accept(job, run, self.id, spec, dice.chance(0.4), now);
        let on_invalid_rows = if dice.chance(0.25) { OnInvalidRows::Fail } else { OnInvalidRows::Skip };
        let source = Source {
            upload: id,
            staged,
            spec: list.spec.clone(),
            on_invalid_rows,
            param_policy: None,
            unknown_fields: Default::default(),
        };
        let acceptance = Submission::of_list(rows.job, rows.run, source, None);
        world.model.begin_accept(&acceptance, list);
        Some(acceptance)
    }

    /// Another process of the same caller puts a list into the slot, while this one makes a job of the one before.
    pub(super) async fn accept_late(
        &self,
        world: &mut World,
        acceptance: Submission,
    ) -> Check<Option<Request>> {
        let (id, now) = (source_of(&acceptance).upload, world.now());
        let Some(list) = another_list(world, &source_of(&acceptance).spec) else {
            return Ok(Some(Request::Accept(acceptance)));
        };
        let (store, blobs) = (world.truth.store.clone(), world.truth.blobs.clone());
        let free = read("an upload", store.upload(self.id, id, now).await)?.is_some_and(|slot| !slot.claimed);
        if free {
            let key = BlobKey::upload(id, WorkerId::new(now, world.dice.entropy()), 0);
            let stream = futures::stream::iter([Ok(list.bytes.clone())]).boxed();
            let stored = read("an object", blobs.put_stream(&key, stream).await)?;
            let staged = Staged::new(key.to_string(), stored.size, stored.etag);
            let replaced = read("a put", store.put_staged(id, staged.clone(), None, now).await)?;
            if let Some(replaced) = replaced {
                read("an object", blobs.delete(&key_of(&replaced)).await)?;
            }
            let slot = world.model.upload(id);
            slot.objects.push(key);
            (slot.staged, slot.unanswered) = (Some(StagedList { staged, list }), None);
            let name = slot.to_string();
            world.note(format!("  fault: other bytes are put into {name} at the last moment"));
        }
        Ok(Some(Request::Accept(acceptance)))
    }

    pub(super) async fn accept(&self, world: &mut World, acceptance: Submission) -> Check<Option<Request>> {
        let (id, upload) = (acceptance.job.id, source_of(&acceptance).upload);
        let accepted = world.backend.store.submit(acceptance.clone()).await;
        if accepted == Err(Error::Changed) {
            let slot = world.model.upload(upload);
            let pinned =
                slot.staged.as_ref().is_some_and(|known| known.staged == source_of(&acceptance).staged);
            return require(!pinned || slot.unanswered.is_some(), Rule::Uploads, || {
                format!("{slot} holds what was pinned, and is called changed")
            })
            .map(|()| None);
        }
        let outcome = answer("accept", accepted)?;
        let (name, now, caller) = (world.name(id), world.now(), self.number);
        match outcome {
            Answer::Got(()) => {
                let job = world.model.job(id);
                (job.acknowledged, job.presence) = (true, Presence::There);
                let (key, status) = (job.key, acceptance.job.status.as_str());
                let slot = world.model.upload(upload).to_string();
                world.note(format!("caller {caller}: {name}, {status}, is accepted of {slot}, {id}"));
                (world.tally.jobs, world.tally.lists) = (world.tally.jobs + 1, world.tally.lists + 1);
                world.past.remember(Operation::Submit(Box::new(acceptance)));
                world.past.remember(Operation::Log(key));
                world.past.remember(Operation::Rows(key));
                Ok(None)
            }
            Answer::Unknown => {
                world.note(format!("caller {caller}: accept of {name} ({id}) not answered"));
                Ok(Some(Request::Accept(acceptance)))
            }
            Answer::NotFound => {
                let upload = world.model.upload(upload);
                require(upload.may_be_gone(now), Rule::Uploads, || {
                    format!("{name}: {upload} is there, and no job can be made of it")
                })?;
                Ok(None)
            }
            Answer::Refused(_) => Err(wrong(&name, "an accept", &outcome)),
        }
    }

    pub(super) async fn abort(&self, world: &mut World, id: UploadId) -> Check<Option<Request>> {
        let claimed = world.model.may_be_claimed(id);
        let before = world.model.upload(id).abort_asked;
        world.model.upload(id).abort_asked = true;
        let aborted = world.backend.store.doom_upload(id, Some(self.id), world.now()).await;
        let outcome = answer("abort_upload", aborted)?;
        let upload = world.model.upload(id);
        let name = upload.to_string();
        match outcome {
            Answer::Got(_) => {
                upload.abort_known = true;
                world.note(format!("caller {}: {name} is aborted", self.number));
            }
            Answer::Unknown => return Ok(Some(Request::Abort(id))),
            Answer::Refused(Refusal::UploadClaimed) if claimed => upload.abort_asked = before,
            Answer::NotFound => {
                upload.abort_asked = before;
                self.slot_is_missing(world, id)?;
            }
            Answer::Refused(_) => return Err(wrong(&name, "an abort", &outcome)),
        }
        Ok(None)
    }

    /// Only what was aborted or has expired may be missing.
    fn slot_is_missing(&self, world: &mut World, id: UploadId) -> Check<Option<Request>> {
        let now: Timestamp = world.now();
        let upload = world.model.upload(id);
        let name = upload.to_string();
        require(upload.may_be_gone(now), Rule::Uploads, || {
            format!("{upload} is not found; it was not aborted and has not expired")
        })?;
        world.note(format!("caller {}: {name} is not there", self.number));
        Ok(None)
    }
}

fn draw_list(world: &mut World) -> List {
    world.model.lists += 1;
    List::draw(&world.dice, world.model.lists)
}

/// Another list for a slot that has one: read in the same way.
pub(super) fn another_list(world: &mut World, spec: &ListSpec) -> Option<List> {
    (0..8).map(|_| draw_list(world)).find(|list| list.spec == *spec)
}

pub fn key_of(staged: &Staged) -> BlobKey {
    staged.object.parse().expect("objects have the keys that they were written under")
}
