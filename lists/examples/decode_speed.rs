//! How long a million rows take, from bytes in memory to checked tasks:
//! `cargo run --release -p conveyor-lists --example decode_speed`.

use conveyor_domain::{ListSpec, ParamPolicy, Params, TaskRules};
use conveyor_lists::{ListError, ListReader};
use tokio::time::{Duration, Instant};

const ROWS: u32 = 1_000_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), ListError> {
    let path = |n: u32| {
        format!("https://www.shop-{:03}.example/catalogue/items/{n:08}/details?lang=en&page=1", n % 997)
    };
    let of_rows = |header: &str, row: &dyn Fn(u32) -> String| {
        let rows = (0..ROWS).map(row).collect::<String>();
        format!("{header}{rows}").into_bytes()
    };
    let lists = [
        (
            "csv",
            ListSpec::Csv { csv: None },
            of_rows("url,external_id\n", &|n| format!("{},id-{n:08}\n", path(n))),
        ),
        (
            "csv, quoted",
            ListSpec::Csv { csv: None },
            of_rows("url,external_id\n", &|n| format!("\"{}\",\"id-{n:08}\"\n", path(n))),
        ),
        ("lines", ListSpec::Lines, of_rows("", &|n| format!("{}\n", path(n)))),
        (
            "jsonl",
            ListSpec::Jsonl,
            of_rows("", &|n| format!("{{\"url\":\"{}\",\"external_id\":\"id-{n:08}\"}}\n", path(n))),
        ),
    ];
    println!("{:12} {:>12} {:>12} {:>12} {:>10}", "format", "bytes a row", "decode", "and check", "µs a row");
    for (name, spec, list) in &lists {
        let (decode, checked) = (time(list, spec, false).await?, time(list, spec, true).await?);
        let row_us = checked.as_secs_f64() * 1e6 / f64::from(ROWS);
        println!(
            "{name:12} {:>12} {decode:>12.2?} {checked:>12.2?} {row_us:>10.2}",
            list.len() / ROWS as usize
        );
    }
    Ok(())
}

/// The best of some rounds: others share the machine.
async fn time(list: &[u8], spec: &ListSpec, check: bool) -> Result<Duration, ListError> {
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let started = Instant::now();
        let mut reader = ListReader::open(list, spec).await?;
        let (job, mut good) = (Params::new(), 0);
        while let Some(record) = reader.next().await? {
            let Ok(row) = record.row else { continue };
            good += u32::from(!check || row.check(&job, TaskRules::strict(ParamPolicy::ZenRows)).is_ok());
        }
        assert_eq!(good, ROWS, "every row is a task");
        best = best.min(started.elapsed());
    }
    Ok(best)
}
