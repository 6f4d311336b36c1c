use crate::world::{World, failed};
use conveyor_domain::export::Progress;
use conveyor_domain::{ExportFormat, Outcome, TaskId};
use conveyor_exports::End;
use conveyor_store::port::RunKey;
use serde_json::{Value, json};

/// Six tasks: the first is successful, the second failed, the others have not ended.
async fn mixed(world: &World) -> RunKey {
    let key = world.run(6).await;
    let result = world.store_bodies(key, &[b"body".to_vec()], false).await.remove(0);
    world.end(key, vec![(0, Outcome::Successful(result)), (1, failed())]).await;
    key
}

#[tokio::test]
async fn jsonl_has_a_line_for_every_task() {
    let world = World::new();
    let key = mixed(&world).await;
    let export = world.ask(key, ExportFormat::Jsonl).await;
    assert_eq!(world.build().await, [End::Completed]);
    let text = String::from_utf8(world.file(&export).await).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let at = "2027-01-15T08:00:00.000Z";
    let id = |i| TaskId::of(key.run, i).to_string();
    assert_eq!(
        rows[0],
        json!({"task_id": id(0), "method": "GET", "url": "https://site.example/0", "status": "successful", "type": "html",
               "http_status": 200, "created_at": at, "updated_at": at})
    );
    assert_eq!((&rows[1]["status"], &rows[1]["error"]["code"]), (&json!("failed"), &json!("http_404")));
    assert_eq!(rows[1]["external_id"], "row-1");
    // What a rerun can be asked for.
    assert_eq!((&rows[1]["http_status"], &rows[1]["error_class"]), (&json!(404), &json!("bad_target")));
    assert_eq!(
        rows[4],
        json!({"task_id": id(4), "method": "GET", "url": "https://site.example/4", "status": "pending",
               "metadata": {"sum": "=1+4, \"quoted\""}, "created_at": at, "updated_at": at})
    );
    assert_eq!(rows.len(), 6);
    let progress = world.find(&export).await.unwrap().progress;
    assert_eq!(progress, Progress { tasks_done: 6, tasks_total: 6, bytes: text.len() as u64 });
}

#[tokio::test]
async fn csv_says_the_same_and_is_read_back_as_it_was() {
    let world = World::new();
    let key = mixed(&world).await;
    let export = world.ask(key, ExportFormat::Csv).await;
    assert_eq!(world.build().await, [End::Completed]);
    let file = world.file(&export).await;
    let mut reader = csv::Reader::from_reader(&file[..]);
    let columns: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let expected = "task_id external_id method url metadata status type http_status error_class error source_run_id created_at updated_at";
    assert_eq!(columns.join(" "), expected);
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 6);
    let cell = |row: usize, name: &str| rows[row][columns.iter().position(|c| c == name).unwrap()].to_owned();
    assert_eq!((cell(0, "status"), cell(0, "http_status")), ("successful".into(), "200".into()));
    assert_eq!((cell(1, "http_status"), cell(1, "error_class")), ("404".into(), "bad_target".into()));
    let error: Value = serde_json::from_str(&cell(1, "error")).unwrap();
    assert_eq!(error["detail"], "The target, \"it\", answered 404.");
    let metadata: Value = serde_json::from_str(&cell(4, "metadata")).unwrap();
    assert_eq!(metadata, json!({"sum": "=1+4, \"quoted\""}));
    assert_eq!((cell(0, "metadata"), cell(2, "error"), cell(2, "type")), Default::default());
}

#[tokio::test]
async fn many_rows_come_in_the_order_of_their_tasks() {
    let world = World::new();
    let key = world.run(5_432).await;
    let export = world.ask(key, ExportFormat::Jsonl).await;
    assert_eq!(world.build().await, [End::Completed]);
    let text = String::from_utf8(world.file(&export).await).unwrap();
    for (i, line) in (0..).zip(text.lines()) {
        let row: Value = serde_json::from_str(line).unwrap();
        assert_eq!(row["task_id"], TaskId::of(key.run, i).to_string());
    }
    assert_eq!(text.lines().count(), 5_432);
}
