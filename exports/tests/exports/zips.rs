use crate::world::{World, bodies, expected, failed, unzip};
use conveyor_domain::export::Progress;
use conveyor_domain::{ExportFormat, Format, Outcome, ResultRef, TaskId};
use conveyor_exports::End;
use std::time::Duration;

#[tokio::test]
async fn every_body_is_in_it_whether_it_shares_its_object_or_not() {
    let world = World::new();
    for (count, whole) in [(1_203, false), (60, true)] {
        let bodies = bodies(count);
        let key = world.finished(&bodies, whole).await;
        let export = world.ask(key, ExportFormat::Zip).await;
        assert_eq!(world.build().await, [End::Completed]);
        let file = world.file(&export).await;
        assert_eq!(unzip(&file), expected(key, &bodies));
        let progress = world.find(&export).await.unwrap().progress;
        let bytes = file.len() as u64;
        assert_eq!(progress, Progress { tasks_done: count, tasks_total: count, bytes });
        assert_eq!(world.objects(&export).len(), 1, "nothing beside it");
    }
}

#[tokio::test]
async fn names_are_ids_with_the_type_and_only_successful_tasks_are_in_it() {
    let world = World::new();
    let key = world.run(8).await;
    let stored = world.store_bodies(key, &vec![b"body".to_vec(); 5], false).await;
    let typed = Format::ALL.into_iter().zip(stored);
    let ends = (0..)
        .zip(typed)
        .map(|(i, (format, result))| (i, Outcome::Successful(ResultRef { format, ..result })));
    world.end(key, ends.collect()).await;
    let nothing = ResultRef::empty(Format::Json, 204);
    world.end(key, vec![(5, failed()), (6, Outcome::Successful(nothing))]).await;
    let export = world.ask(key, ExportFormat::Zip).await;
    assert_eq!(world.build().await, [End::Completed], "though the run goes on");
    let entries = unzip(&world.file(&export).await);
    let name = |i, extension: &str| format!("{}.{extension}", TaskId::of(key.run, i));
    let names: Vec<String> = ["html", "json", "markdown", "plaintext", "pdf"]
        .into_iter()
        .zip(0..)
        .map(|(extension, i)| name(i, extension))
        .chain([name(6, "json")])
        .collect();
    assert_eq!(entries.keys().cloned().collect::<Vec<_>>(), names);
    assert_eq!(entries[&name(6, "json")], b"");
}

#[tokio::test]
async fn a_run_without_results_is_an_empty_file_that_can_be_opened() {
    let world = World::new();
    let key = world.run(2).await;
    let export = world.ask(key, ExportFormat::Zip).await;
    assert_eq!(world.build().await, [End::Completed]);
    assert!(unzip(&world.file(&export).await).is_empty());
}

#[tokio::test]
async fn results_past_their_time_are_left_out() {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let world = World::new();
    let key = world.run(2).await;
    let stored = world.store_bodies(key, &vec![b"body".to_vec(); 2], false).await;
    let mut ends = (0..).zip(stored).map(|(i, result)| (i, Outcome::Successful(result)));
    world.end(key, ends.by_ref().take(1).collect()).await;
    world.clock.advance(10 * DAY);
    world.end(key, ends.collect()).await;
    world.clock.advance(5 * DAY);
    let export = world.ask(key, ExportFormat::Zip).await;
    assert_eq!(world.build().await, [End::Completed]);
    let names: Vec<String> = unzip(&world.file(&export).await).into_keys().collect();
    assert_eq!(names, [format!("{}.html", TaskId::of(key.run, 1))]);
    assert_eq!(world.find(&export).await.unwrap().progress.tasks_done, 2, "both were looked at");
}

#[tokio::test]
async fn entries_are_dated_when_their_task_ended() {
    let world = World::new();
    let key = world.finished(&[b"x".to_vec()], false).await;
    let export = world.ask(key, ExportFormat::Zip).await;
    world.build().await;
    let file = world.file(&export).await;
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(file)).unwrap();
    let entry = archive.by_index(0).unwrap();
    // 1_800_000_000 s.
    assert_eq!(entry.last_modified().unwrap().to_string(), "2027-01-15 08:00:00");
    assert_eq!(entry.unix_mode(), Some(0o100_644));
}
