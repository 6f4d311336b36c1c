//! Result bodies on their way to the blobs: small ones of a group share an object (SPEC 8.6). Every object says whose bodies
//! it holds (SPEC 6.18).

use bytes::{Bytes, BytesMut};
use conveyor_domain::export::result_index::Label;
use conveyor_domain::{IndexEntry, WorkerId, limits, result_index};
use conveyor_store::port::{BlobKey, RunKey};
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers the objects of one worker incarnation.
#[derive(Debug, Default)]
pub struct ObjectNumbers(AtomicU64);

impl ObjectNumbers {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// A body, and whose it is.
#[derive(Clone, Debug)]
pub struct Body {
    pub label: Label,
    pub bytes: Bytes,
}

/// Where a body will be: an object of the plan, and the offset in it. `None` for an empty body.
pub type Place = Option<(usize, u64)>;

#[derive(Debug)]
pub struct Object {
    pub key: BlobKey,
    pub bytes: Bytes,
    /// It is one body and nothing else: callers may be given it as it is.
    pub whole: bool,
}

#[derive(Debug, Default)]
pub struct Plan {
    pub objects: Vec<Object>,
    pub places: Vec<Place>,
}

/// Whose objects they are, and how they are numbered.
#[derive(Clone, Copy, Debug)]
pub struct Author<'a> {
    pub worker: WorkerId,
    pub run: RunKey,
    pub numbers: &'a ObjectNumbers,
}

impl Author<'_> {
    fn whole(&self, body: &Body) -> Object {
        let (run, n) = (self.run, self.numbers.next());
        let key = BlobKey::whole_result(run.job, run.run, self.worker, n, &body.label.to_string());
        Object { key, bytes: body.bytes.clone(), whole: true }
    }

    fn shared(&self, bytes: Bytes) -> Object {
        let key = BlobKey::results(self.run.job, self.run.run, self.worker, self.numbers.next());
        Object { key, bytes, whole: false }
    }
}

/// Lays bodies out in objects, one place per body.
pub fn plan(author: Author<'_>, bodies: &[Option<Body>]) -> Plan {
    let mut plan = Plan { objects: Vec::new(), places: vec![None; bodies.len()] };
    let mut pack = Pack::default();
    for (number, body) in bodies.iter().enumerate() {
        match body {
            None => {}
            Some(body) if body.bytes.is_empty() => {}
            Some(body) if body.bytes.len() > limits::PACK_BODY_MAX_BYTES => {
                plan.objects.push(author.whole(body));
                plan.places[number] = Some((plan.objects.len() - 1, 0));
            }
            Some(body) => {
                if !pack.has_room_for(body) {
                    std::mem::take(&mut pack).close(author, &mut plan);
                }
                pack.members.push((number, body));
                pack.bytes += body.bytes.len();
            }
        }
    }
    pack.close(author, &mut plan);
    plan
}

/// Bodies that will share an object.
#[derive(Default)]
struct Pack<'a> {
    /// With their numbers among all bodies.
    members: Vec<(usize, &'a Body)>,
    bytes: usize,
}

impl Pack<'_> {
    fn has_room_for(&self, body: &Body) -> bool {
        let index = result_index::bytes_of(self.members.len() + 1);
        self.bytes + body.bytes.len() + index <= limits::PACK_MAX_BYTES
    }

    fn close(self, author: Author<'_>, plan: &mut Plan) {
        let object = plan.objects.len();
        if let [(number, alone)] = self.members[..] {
            plan.objects.push(author.whole(alone));
            plan.places[number] = Some((object, 0));
            return;
        }
        if self.members.is_empty() {
            return;
        }
        let mut bytes = BytesMut::with_capacity(self.bytes + result_index::bytes_of(self.members.len()));
        let mut entries = Vec::with_capacity(self.members.len());
        for (number, body) in self.members {
            let (offset, length) = (bytes.len() as u64, body.bytes.len() as u64);
            entries.push(IndexEntry { label: body.label, offset, length });
            plan.places[number] = Some((object, offset));
            bytes.extend_from_slice(&body.bytes);
        }
        bytes.extend_from_slice(&result_index::encode(&entries));
        plan.objects.push(author.shared(bytes.freeze()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::{Format, JobId, RunId, TaskId};
    use proptest::prelude::*;

    const RUN: [u8; 16] = [2; 16];

    fn body(index: u32, length: usize) -> Body {
        let task = TaskId::of(RunId::from_bytes(RUN), index);
        let bytes = vec![index.to_le_bytes()[0]; length];
        let crc32 = Some(conveyor_domain::export::checksum::hash(&bytes));
        let label = Label { task, attempt: 3, http_status: 200, format: Format::Html, crc32 };
        Body { label, bytes: bytes.into() }
    }

    fn plan_of(bodies: &[Option<Body>]) -> Plan {
        let run = RunKey { job: JobId::from_bytes([1; 16]), run: RunId::from_bytes(RUN) };
        let author =
            Author { worker: WorkerId::from_bytes([3; 16]), run, numbers: &ObjectNumbers::default() };
        plan(author, bodies)
    }

    /// Whose bodies an object holds, as somebody finds out who has nothing else.
    fn entries_of(object: &Object) -> Vec<IndexEntry> {
        let name = object.key.as_str().rsplit('/').next().unwrap();
        if let Some((_, label)) = name.split_once('.') {
            let label = label.parse().unwrap();
            return vec![IndexEntry { label, offset: 0, length: object.bytes.len() as u64 }];
        }
        let trailer = object.bytes.len() - result_index::TRAILER_BYTES;
        let begin = result_index::entries_begin(object.bytes.len() as u64, &object.bytes[trailer..]).unwrap();
        result_index::decode(begin, &object.bytes[usize::try_from(begin).unwrap()..]).unwrap()
    }

    fn lengths() -> impl Strategy<Value = Option<usize>> {
        let around = limits::PACK_BODY_MAX_BYTES;
        prop_oneof![
            Just(None),
            Just(Some(0)),
            (1_usize..2_000).prop_map(Some),
            (around - 2..around + 3).prop_map(Some)
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_body_is_where_its_place_says_and_its_object_says_so_too(
            lengths in prop::collection::vec(lengths(), 0..limits::SETTLE_GROUP_MAX),
        ) {
            let bodies: Vec<Option<Body>> =
                (0..).zip(&lengths).map(|(n, length)| length.map(|length| body(n, length))).collect();
            let plan = plan_of(&bodies);
            prop_assert_eq!(plan.places.len(), bodies.len());
            let mut entries: Vec<Vec<IndexEntry>> = plan.objects.iter().map(entries_of).collect();
            for (body, place) in bodies.iter().zip(&plan.places) {
                let Some(body) = body.as_ref().filter(|body| !body.bytes.is_empty()) else {
                    prop_assert_eq!(*place, None);
                    continue;
                };
                let (object, offset) = place.unwrap();
                let at = usize::try_from(offset).unwrap();
                prop_assert_eq!(&plan.objects[object].bytes[at..at + body.bytes.len()], &body.bytes[..]);
                let entry = IndexEntry { label: body.label, offset, length: body.bytes.len() as u64 };
                let found = entries[object].iter().position(|e| *e == entry).unwrap();
                entries[object].remove(found);
                prop_assert_eq!(plan.objects[object].whole, plan.objects[object].bytes == body.bytes);
            }
            prop_assert!(entries.iter().all(Vec::is_empty), "an object names what is not in it");
            for object in plan.objects.iter().filter(|object| !object.whole) {
                prop_assert!(object.bytes.len() <= limits::PACK_MAX_BYTES);
            }
        }
    }

    #[test]
    fn a_body_that_is_alone_is_its_object() {
        let plan = plan_of(&[None, Some(body(1, 10)), Some(body(2, 0))]);
        let [object] = &plan.objects[..] else { panic!("{plan:?}") };
        assert!(object.whole && object.bytes.len() == 10);
        assert!(object.key.as_str().contains(".3.200.html."), "{}", object.key);
    }
}
