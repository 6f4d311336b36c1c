//! Custom headers of a list are sealed in its rows (SPEC 13), whoever staged it.

use crate::world::{World, small_chunks};
use conveyor_domain::job::task_input::Reason;
use conveyor_domain::{Entropy, HeaderSeal, ListSpec, OnInvalidRows, Secret, UploadId, headers};
use conveyor_ingest::End;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const TASK: &str =
    r#"{"url":"https://a.example","zenrows_params":{"custom_headers":{"Cookie":"canary"},"wait":1}}"#;

fn secret() -> Secret {
    Secret::new([5; 32])
}

fn seal() -> HeaderSeal {
    HeaderSeal::new(secret(), Arc::new(Entropy::from_number(5)))
}

#[tokio::test]
async fn rows_open_for_their_job_whether_or_not_the_list_was_sealed() {
    let world = World::new();
    let clear = world.stage(TASK.as_bytes(), ListSpec::Jsonl, OnInvalidRows::Skip).await;
    let ours =
        world.stage_as(OnInvalidRows::Fail, |id| seal().seal_lines(&id, TASK.as_bytes()).into_owned()).await;
    for source in [clear, ours] {
        let key = world.accept_source(source, false).await;
        let ingester = world.ingester(small_chunks()).sealing(seal());
        assert_eq!(ingester.ingest(key, &CancellationToken::new()).await.unwrap(), End::Over);
        let task = world.tasks(key).await.remove(0);
        assert!(!format!("{:?}", task.input).contains("canary"));
        let mut params = task.input.params;
        headers::open(&secret(), &key.job, &mut params).unwrap();
        assert_eq!(params["custom_headers"], r#"{"Cookie":"canary"}"#);
    }
}

#[tokio::test]
async fn headers_that_were_sealed_for_another_list_are_no_headers() {
    let world = World::new();
    let other = UploadId::from_bytes([8; 16]);
    let line = seal().seal_lines(&other, TASK.as_bytes()).into_owned();
    let list = [line.as_slice(), b"{\"url\":\"https://b.example\"}\n"].concat();
    let key = world.accept(&list, ListSpec::Jsonl, OnInvalidRows::Skip).await;
    let ingester = world.ingester(small_chunks()).sealing(seal());
    assert_eq!(ingester.ingest(key, &CancellationToken::new()).await.unwrap(), End::Over);
    let rejected = world.rejected(key).await;
    assert_eq!(rejected.len(), 1);
    assert_eq!(rejected[0].reason, Reason::InvalidParamValue);
}
