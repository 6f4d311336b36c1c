//! Lists that nobody has counted before the submit, as where callers send them to the storage by themselves (SPEC 6.10): they
//! are counted for a moment, and what a dry run says of them is what the submit does.

use crate::world::{Answer, World, config};
use async_trait::async_trait;
use bytes::Bytes;
use conveyor_api::ApiConfig;
use conveyor_domain::Timestamp;
use conveyor_domain::ingest::upload::{Declared, Part};
use conveyor_store::port::{
    Around, BlobKey, ByteStream, DirectAccess, Found, Joined, Over, OverBlobs, SignedPut, Stored, Validity,
};
use conveyor_store::{Backend, Error, Result};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Far more than any of this takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// Objects that callers reach by themselves, but never did.
struct Direct {
    inner: Backend,
    /// A pinned read gives no more than this.
    stalls_after: Option<usize>,
}

fn unused<T>() -> Result<T> {
    Err(Error::Unavailable("no test asks for it".to_owned()))
}

#[async_trait]
impl DirectAccess for Direct {
    async fn put_url(&self, _: &BlobKey, _: &'static str, _: &Declared, _: Validity) -> Result<SignedPut> {
        Ok(SignedPut { url: "https://storage.test/list".to_owned(), headers: Default::default() })
    }

    async fn get_url(&self, _: &BlobKey, _: &'static str, _: Option<&str>, _: Validity) -> Result<String> {
        unused()
    }

    async fn find(&self, _: &BlobKey) -> Result<Option<Found>> {
        Ok(None)
    }

    async fn copy(&self, _: &BlobKey, _: &Stored, _: &BlobKey) -> Result<Stored> {
        unused()
    }

    async fn begin_parts(&self, _: &BlobKey, _: &'static str) -> Result<String> {
        unused()
    }

    async fn part_url(&self, _: &BlobKey, _: &str, _: u32, _: Option<u64>, _: Validity) -> Result<String> {
        unused()
    }

    async fn parts(&self, _: &BlobKey, _: &str) -> Result<Option<Vec<Part>>> {
        unused()
    }

    async fn join_parts(&self, _: &BlobKey, _: &str, _: &[Part]) -> Result<Joined> {
        unused()
    }
}

impl Around for Direct {
    fn behind(&self) -> &Backend {
        &self.inner
    }
}

#[async_trait]
impl OverBlobs for Direct {
    async fn read_pinned(&self, key: &BlobKey, etag: &str, offset: u64) -> Result<ByteStream> {
        let stream = self.inner.blobs.read_pinned(key, etag, offset).await?;
        let Some(bytes) = self.stalls_after else { return Ok(stream) };
        let whole: Vec<Bytes> = stream.try_collect().await?;
        let first = Bytes::copy_from_slice(&whole.concat()[..bytes]);
        Ok(stream::iter([Ok(first)]).chain(stream::pending()).boxed())
    }
}

async fn world(stalls_after: Option<usize>, config: ApiConfig) -> World {
    let over = |embedded: Backend| {
        let direct = Arc::new(Direct { inner: embedded.clone(), stalls_after });
        Backend { blobs: Arc::new(Over(direct.clone())), direct: Some(direct), ..embedded }
    };
    let config = ApiConfig { inline_tasks_max: 3, ..config };
    World::over(over, Timestamp(1_767_225_600_000), config, Arc::new(String::new)).await
}

fn lines(count: usize) -> String {
    (0..count).map(|n| format!("https://a.example/{n:02}\n")).collect()
}

async fn in_time(work: impl Future<Output = Answer>) -> Answer {
    tokio::time::timeout(DEADLINE, work).await.expect("an answer, however long the storage takes")
}

#[tokio::test]
async fn a_submit_waits_for_a_count_no_longer_than_it_may() {
    let bad = format!("{}nonsense\n{}", lines(10), lines(30));
    let stalls_after = Some(lines(20).len());
    let world = world(stalls_after, ApiConfig { count_within: Duration::from_millis(100), ..config() }).await;
    let submit = async |list: String, policy: &str| {
        let id = world.staged_uncounted(list).await;
        let body = json!({"file_input_id": id, "on_invalid_rows": policy});
        in_time(world.post("/v1/jobs", body)).await
    };
    for (list, policy) in [(lines(40), "skip"), (lines(40), "fail"), (bad.clone(), "skip")] {
        let answer = submit(list, policy).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        let body = answer.json();
        assert_eq!(body["total_is_final"], false);
        assert!(body["accepted_tasks"].as_u64().unwrap() > 0, "what was counted by then is known: {body}");
        assert!(body["latest_run"]["stats"]["total"].as_u64().unwrap() > 0);
    }
    // One invalid row is enough to know what becomes of it.
    let answer = submit(bad, "fail").await;
    answer.refused(400, "invalid_rows");
    assert_eq!(answer.json()["invalid_tasks"][0]["line"], 11);
}

#[tokio::test]
async fn a_dry_run_says_what_the_submit_does_with_a_list_that_it_counts() {
    let world = world(None, ApiConfig { run_tasks_max: 50, ..config() }).await;
    let cases: [(String, Value, u16); 5] = [
        (lines(9), json!({}), 202),
        (format!("{}nonsense\n", lines(8)), json!({}), 202),
        (format!("{}nonsense\n", lines(8)), json!({"on_invalid_rows": "fail"}), 400),
        ("nonsense\n".repeat(9), json!({}), 400),
        (format!("{}{}", lines(45), "nonsense\n".repeat(6)), json!({}), 413),
    ];
    for (list, more, status) in cases {
        let id = world.staged_uncounted(list).await;
        assert_eq!(world.submit_as_foretold(&id, more).await.status, status);
    }
}
