use crate::world::{World, attend, bodies, expected, unzip};
use conveyor_domain::{ExportFormat, Format, Outcome, ResultRef, TaskId};
use conveyor_exports::{End, ExportConfig};
use std::io::Cursor;
use zip::ZipArchive;

/// More than 16 bits can count. Read by a crate that goes by the 64-bit records.
#[tokio::test]
async fn a_zip_may_have_more_entries_than_the_old_format_can_count() {
    const COUNT: u32 = 65_800;
    let world = World::new();
    let key = world.run(COUNT).await;
    let nothing = ResultRef::empty(Format::Json, 200);
    let ends: Vec<_> = (0..COUNT).map(|i| (i, Outcome::Successful(nothing.clone()))).collect();
    for part in ends.chunks(5_000) {
        world.end(key, part.to_vec()).await;
    }
    let export = world.ask(key, ExportFormat::Zip).await;
    assert_eq!(world.build().await, [End::Completed]);
    assert_eq!(world.objects(&export).len(), 1, "what was put aside is gone");
    let file = world.file(&export).await;
    assert!(file.windows(4).rev().take(200).any(|four| four == b"PK\x06\x06"), "the 64-bit end is there");
    let mut archive = ZipArchive::new(Cursor::new(file)).unwrap();
    assert_eq!(archive.len(), COUNT as usize);
    for i in [0, 65_534, 65_535, 65_536, COUNT - 1] {
        let name = format!("{}.json", TaskId::of(key.run, i));
        assert_eq!(archive.by_index(i as usize).unwrap().name().unwrap(), name);
        assert_eq!(archive.by_name(&name).unwrap().size(), 0);
    }
}

#[tokio::test]
async fn a_directory_that_was_put_aside_comes_back_in_order() {
    let world = World::new();
    let bodies = bodies(200);
    let key = world.finished(&bodies, false).await;
    let export = world.ask(key, ExportFormat::Zip).await;
    // Some six entries each.
    let config = ExportConfig { directory_bytes: 500, ..ExportConfig::default() };
    assert_eq!(attend(&world.builder_with(&world.backend, config)).await, [End::Completed]);
    assert_eq!(unzip(&world.file(&export).await), expected(key, &bodies));
    assert_eq!(world.objects(&export).len(), 1);
}
