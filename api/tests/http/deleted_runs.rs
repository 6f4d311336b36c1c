//! One run of a job deleted (SPEC 6.6).

use crate::world::{Answer, KEY, World, golden};
use conveyor_domain::{Command, Format, QueueName, Storage, TaskId};
use conveyor_store::Error;
use conveyor_store::port::{BlobKey, Chore, Mark, Removal, RunKey};
use serde_json::json;

impl World {
    pub async fn delete_run(&self, key: RunKey) -> Answer {
        self.call("DELETE", &format!("/v1/jobs/{}/runs/{}", key.job, key.run), Some(KEY), None).await
    }

    /// What the sweeper does, in its order.
    pub async fn remove_run(&self, key: RunKey) {
        let store = &self.backend.store;
        assert_eq!(store.due(Chore::DeletedRuns, 10).await.unwrap(), [key.into()]);
        while !self.backend.queue.remove(QueueName::Run(key.run), 100).await.unwrap() {}
        store.mark(key, Mark::QueueGone).await.unwrap();
        while store.remove_rows(Removal::Run(key), 100).await.unwrap() > 0 {}
        self.backend.blobs.delete_under(&BlobKey::run_prefix(key.job, key.run)).await.unwrap();
        store.mark(key, Mark::RowsGone(Storage::Removed)).await.unwrap();
    }
}

#[tokio::test]
async fn a_deleted_run_answers_until_it_is_removed() {
    let world = World::new().await;
    let key = world.submit("open", 2).await;
    world.succeed(key, 0, Format::Html, b"x").await;
    let url = world.get(&format!("/v1/jobs/{}/results", key.job)).await.json()["results"][0]["result_url"]
        .as_str()
        .unwrap()
        .to_owned();
    let url = url.strip_prefix("http://api.test:8080").unwrap();
    let first = world.delete_run(key).await;
    assert_eq!(first.status, 202);
    golden("run_deleted", &first.json());
    world.pass_ms(1_000);
    let again = world.delete_run(key).await;
    assert_eq!((again.status.as_u16(), again.json()), (202, first.json()), "repeating it changes nothing");

    let job = world.get(&format!("/v1/jobs/{}", key.job)).await.json();
    assert_eq!((&job["status"], &job["latest_run"]["status"]), (&json!("closed"), &json!("deleted")));
    let task = TaskId::of(key.run, 0);
    for rest in ["results".to_owned(), format!("tasks/{task}/content"), format!("tasks/{task}/history")] {
        world.get(&format!("/v1/jobs/{}/{rest}", key.job)).await.refused(410, "result_expired");
    }
    world.call("GET", url, None, None).await.refused(410, "result_expired");
    let more = json!({"tasks": [{"url": "https://a.example"}]});
    world.post(&format!("/v1/jobs/{}/tasks", key.job), more).await.refused(409, "job_not_open");
}

/// Otherwise a rebuild would bring back what was deleted.
#[tokio::test]
async fn what_a_list_was_accepted_with_goes_at_once() {
    let world = World::new().await;
    let has = async |key: RunKey| match world.backend.blobs.get(&BlobKey::accepted(key.job), 0, 1).await {
        Ok(_) => true,
        Err(Error::NotFound) => false,
        Err(error) => panic!("{error}"),
    };
    let short = async || {
        let id = world.staged(json!({"type": "lines"}), "https://a.example/0\n").await;
        world.submitted(json!({"file_input_id": id})).await
    };
    for key in [world.accepted().await, short().await] {
        assert!(has(key).await);
        assert_eq!(world.delete_run(key).await.status, 202);
        assert!(!has(key).await, "its run was deleted");
    }
    for key in [world.accepted().await, short().await] {
        assert!(has(key).await);
        let deleted = world.call("DELETE", &format!("/v1/jobs/{}", key.job), Some(KEY), None).await;
        assert_eq!(deleted.status, 202);
        assert!(!has(key).await, "the job was deleted");
    }
}

#[tokio::test]
async fn a_removed_run_is_not_there_and_its_job_is() {
    let world = World::new().await;
    let key = world.submit("closed", 1).await;
    world.succeed(key, 0, Format::Html, b"x").await;
    world.apply(key.job, Command::Drained).await;
    assert_eq!(world.delete_run(key).await.status, 202);
    world.remove_run(key).await;
    let (job, run) = (format!("/v1/jobs/{}", key.job), format!("/v1/jobs/{}/runs/{}", key.job, key.run));
    let task = TaskId::of(key.run, 0);
    for path in [
        run.clone(),
        format!("{run}/audit"),
        format!("{run}/results"),
        format!("{run}/ingest"),
        format!("{job}/results"),
        format!("{job}/limits"),
        format!("{job}/tasks/{task}/content"),
        format!("{job}/tasks/{task}/history"),
    ] {
        world.get(&path).await.refused(404, "not_found");
    }
    for verb in ["stop", "pause", "resume"] {
        world.act(&format!("{job}/{verb}")).await.refused(404, "not_found");
    }
    world.act(&format!("{job}/rerun")).await.refused(409, "no_prior_run");
    world.delete_run(key).await.refused(404, "not_found");
    assert_eq!(world.get(&format!("{job}/runs")).await.json(), json!({"runs": []}));
    let shown = world.get(&job).await.json();
    assert_eq!((&shown["status"], shown.get("latest_run")), (&json!("closed"), None), "{shown}");
    let listed = world.get("/v1/jobs").await.json();
    assert_eq!(
        (listed["jobs"][0]["job_id"].as_str(), listed["jobs"][0].get("latest_run")),
        (Some(key.job.to_string().as_str()), None)
    );
    assert_eq!(world.get("/v1/leases").await.json(), json!({"leases": []}));
    let closed = world.act(&format!("{job}/close")).await;
    assert_eq!((closed.status.as_u16(), closed.json().get("latest_run")), (200, None));
    assert_eq!(world.call("DELETE", &job, Some(KEY), None).await.status, 202);
}
