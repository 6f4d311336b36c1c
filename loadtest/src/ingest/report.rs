//! The line that `loadtest ingest` prints.

use super::measure::Measured;
use crate::floors::Floors;
use crate::latency::{Summary, in_ms};
use crate::list::List;
use crate::process::Memory;
use crate::round;
use serde::Serialize;
use std::time::Duration;

#[derive(Debug, Serialize)]
pub struct Report {
    bench: &'static str,
    rows: u64,
    /// Of the list before compression.
    bytes: u64,
    gzip: bool,
    uploaded_bytes: u64,
    upload_seconds: f64,
    submit_ms: f64,
    ingest_seconds: f64,
    rows_per_second: f64,
    total: u64,
    #[serde(flatten)]
    status_reads: Summary,
    #[serde(flatten)]
    memory: Option<Memory>,
    #[serde(skip_serializing_if = "Option::is_none")]
    check_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    floors: Option<Beside>,
}

/// The floors, and how Conveyor stands beside them.
#[derive(Debug, Serialize)]
struct Beside {
    #[serde(flatten)]
    floors: Floors,
    ratio_to_copy: f64,
    times_bullmq: f64,
    times_pg_boss: f64,
    times_graphile_worker: f64,
}

impl Report {
    pub fn new(list: &List, uploaded: &List, measured: &Measured) -> Report {
        let seconds = measured.ingest.as_secs_f64();
        Report {
            bench: "ingest",
            rows: list.rows,
            bytes: list.bytes,
            gzip: uploaded.path != list.path,
            uploaded_bytes: uploaded.bytes,
            upload_seconds: round::seconds(measured.upload.as_secs_f64()),
            submit_ms: in_ms(measured.submit),
            ingest_seconds: round::seconds(seconds),
            rows_per_second: round::rate(list.rows, seconds),
            total: measured.total,
            status_reads: measured.status_reads,
            memory: None,
            check_seconds: None,
            floors: None,
        }
    }

    pub fn add_memory(&mut self, memory: Memory) {
        self.memory = Some(memory);
    }

    pub fn add_check(&mut self, took: Duration) {
        self.check_seconds = Some(round::seconds(took.as_secs_f64()));
    }

    pub fn add_floors(&mut self, floors: Floors) {
        let times = |floor: f64| round::ratio(self.rows_per_second / floor);
        self.floors = Some(Beside {
            ratio_to_copy: times(floors.copy),
            times_bullmq: times(floors.peers.bullmq),
            times_pg_boss: times(floors.peers.pg_boss),
            times_graphile_worker: times(floors.peers.graphile_worker),
            floors,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floors::Peers;
    use serde_json::json;

    fn report() -> Report {
        let list = List { path: "list.csv".into(), rows: 1000, bytes: 90_000 };
        let gzip = List { path: "list.csv.gz".into(), bytes: 30_000, ..list.clone() };
        let measured = Measured {
            job_id: "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap(),
            upload: Duration::from_millis(250),
            submit: Duration::from_micros(1234),
            ingest: Duration::from_millis(10),
            total: 1000,
            status_reads: Summary { calls: 2, p50_ms: 0.5, p99_ms: 0.75, max_ms: 0.75 },
        };
        Report::new(&list, &gzip, &measured)
    }

    #[test]
    fn says_what_was_measured_and_no_more() {
        let expected = json!({
            "bench": "ingest", "rows": 1000, "bytes": 90_000, "gzip": true, "uploaded_bytes": 30_000,
            "upload_seconds": 0.25, "submit_ms": 1.23, "ingest_seconds": 0.01, "rows_per_second": 100_000.0,
            "total": 1000, "status_reads": 2, "status_p50_ms": 0.5, "status_p99_ms": 0.75, "status_max_ms": 0.75,
        });
        assert_eq!(serde_json::to_value(report()).unwrap(), expected);
    }

    #[test]
    fn the_rest_comes_on_demand() {
        let mut report = report();
        report.add_memory(Memory { peak_mb: 51.5, resident_mb: 40.0 });
        report.add_check(Duration::from_secs(2));
        let peers = Peers {
            bullmq: 20_000.0,
            bullmq_fsync_always: 10_000.0,
            pg_boss: 40_000.0,
            graphile_worker: 50_000.0,
        };
        report.add_floors(Floors::new(1000, 100, (150_000.0, 250_000.0), peers));
        let json = serde_json::to_value(report).unwrap();
        assert_eq!((&json["peak_memory_mb"], &json["memory_mb"]), (&json!(51.5), &json!(40.0)));
        assert_eq!(json["check_seconds"], json!(2.0));
        let floors = json!({
            "copy_rows": 1000, "copy_before_rows_per_second": 150_000.0, "copy_after_rows_per_second": 250_000.0,
            "copy_rows_per_second": 200_000.0, "floor_rows": 100, "bullmq_rows_per_second": 20_000.0,
            "bullmq_fsync_always_rows_per_second": 10_000.0, "pg_boss_rows_per_second": 40_000.0,
            "graphile_worker_rows_per_second": 50_000.0, "ratio_to_copy": 0.5, "times_bullmq": 5.0,
            "times_pg_boss": 2.5, "times_graphile_worker": 2.0,
        });
        assert_eq!(json["floors"], floors);
    }
}
