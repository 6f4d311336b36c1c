//! Result bodies on their way to the blobs: small ones of a group share an object (SPEC 8.6).

use crate::Worker;
use crate::context::RunContext;
use bytes::{Bytes, BytesMut};
use conveyor_domain::limits;
use conveyor_store::port::BlobKey;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers the objects of one worker incarnation.
#[derive(Debug, Default)]
pub struct ObjectNumbers(AtomicU64);

impl ObjectNumbers {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Where a body will be: an object of the plan, and the offset in it. `None` for an empty body.
pub type Place = Option<(usize, u64)>;

#[derive(Debug)]
pub struct Object {
    pub key: BlobKey,
    pub bytes: Bytes,
}

impl Object {
    /// Whether a body of this length, which is in it, is all that is in it.
    pub fn is_just(&self, length: usize) -> bool {
        self.bytes.len() == length
    }
}

#[derive(Debug, Default)]
pub struct Plan {
    pub objects: Vec<Object>,
    pub places: Vec<Place>,
}

/// Lays bodies out in objects, one place per body.
pub fn plan(worker: &Worker, run: &RunContext, numbers: &ObjectNumbers, bodies: &[Option<Bytes>]) -> Plan {
    let new_key = || BlobKey::results(run.key.job, run.key.run, worker.id, numbers.next());
    let mut plan = Plan::default();
    let mut shared: Option<(usize, BytesMut)> = None;
    for body in bodies {
        let place = match body {
            None => None,
            Some(body) if body.is_empty() => None,
            Some(body) if body.len() > limits::PACK_BODY_MAX_BYTES => {
                plan.objects.push(Object { key: new_key(), bytes: body.clone() });
                Some((plan.objects.len() - 1, 0))
            }
            Some(body) => {
                let full = |s: &(usize, BytesMut)| s.1.len() + body.len() > limits::PACK_MAX_BYTES;
                if shared.as_ref().is_some_and(full) {
                    close(&mut plan, &mut shared);
                }
                let (object, pack) = shared.get_or_insert_with(|| {
                    plan.objects.push(Object { key: new_key(), bytes: Bytes::new() });
                    (plan.objects.len() - 1, BytesMut::new())
                });
                let offset = pack.len() as u64;
                pack.extend_from_slice(body);
                Some((*object, offset))
            }
        };
        plan.places.push(place);
    }
    close(&mut plan, &mut shared);
    plan
}

fn close(plan: &mut Plan, shared: &mut Option<(usize, BytesMut)>) {
    if let Some((object, pack)) = shared.take() {
        plan.objects[object].bytes = pack.freeze();
    }
}
