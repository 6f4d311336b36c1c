use super::*;
use conveyor_domain::ingest::Source;
use conveyor_domain::{Clock, Entropy, JobId, JobSpec, ListSpec, Staged, Upload, UploadId, lifecycle};
use conveyor_store::embedded::Embedded;
use conveyor_store::port::Submission;
use conveyor_testkit::{ManualClock, sized};
use std::sync::Arc;
use tempfile::TempDir;

/// Accepts lists of a caller, all of them long.
async fn accept(ingester: &Ingester, entropy: &Entropy, caller: CallerId, lists: u32) {
    let (store, now) = (&ingester.backend.store, ingester.clock.now());
    let accepted = (0..lists).map(|_| async {
        let (id, spec) = (UploadId::new(now, entropy), ListSpec::Lines);
        let staged = Staged::new(format!("uploads/{id}/a"), 1, "1".to_owned());
        let upload = Upload::new(id, caller, spec.clone(), now);
        store.create_upload(upload, lists).await.unwrap();
        store.put_staged(id, staged.clone(), None, now).await.unwrap();
        let (job, run) = (JobId::new(now, entropy), RunId::new(now, entropy));
        let rows = lifecycle::accept(job, run, caller, JobSpec::default(), false, now);
        let source = Source {
            upload: id,
            staged,
            spec,
            on_invalid_rows: Default::default(),
            param_policy: None,
            unknown_fields: Default::default(),
        };
        store.submit(Submission::of_list(rows.job, rows.run, source, None)).await.unwrap();
    });
    futures::future::join_all(accepted).await;
}

/// Looks until there is to be a pause. Whose lists were begun, and how many looks it took.
async fn pass(intake: &mut Intake, ingester: &Ingester) -> (Vec<CallerId>, u32) {
    let (mut begun, mut looks) = (Vec::new(), 0);
    loop {
        let looked = intake.look(ingester).await;
        looks += 1;
        begun.extend(looked.begin.iter().filter_map(|(ticket, _)| ticket.0.map(|(_, caller, _)| caller)));
        if !looked.again {
            return (begun, looks);
        }
    }
}

#[tokio::test]
async fn a_list_behind_many_of_another_caller_is_found_without_a_pause() {
    let (dir, clock, entropy) =
        (TempDir::new().unwrap(), Arc::new(ManualClock::new()), Entropy::from_number(5));
    let backend = Embedded::open(dir.path(), clock.now()).unwrap().backend();
    let config = crate::IngestConfig { small_max_bytes: 0, ..Default::default() };
    let ingester = Ingester::new(backend, clock.clone(), &entropy, config);
    let mut intake = Intake::new(config.ingests_max);
    let [one, other] = [(); 2].map(|()| CallerId::new(clock.now(), &entropy));
    let (long, look_max) = (sized(300, 1_500), limits::INGEST_LOOK_MAX as u32);
    accept(&ingester, &entropy, one, long).await;
    let (begun, looks) = pass(&mut intake, &ingester).await;
    assert_eq!((begun, looks), (vec![one; config.ingests_max as usize], 1), "as many as it may have");
    accept(&ingester, &entropy, other, 1).await;
    let (begun, looks) = pass(&mut intake, &ingester).await;
    assert_eq!(begun, [other]);
    assert!(looks <= long / look_max + 2, "{looks} looks");
    // Nobody finds a place any more, and places are free: each message is seen, then there is a pause.
    let (begun, looks) = pass(&mut intake, &ingester).await;
    assert!(begun.is_empty() && !intake.is_full());
    assert!(
        looks >= long / look_max && looks <= limits::INGEST_PASS_LOOKS_MAX.min(long / look_max + 2),
        "{looks} looks"
    );
}
