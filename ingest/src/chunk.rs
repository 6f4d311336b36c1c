//! Records gathered until they are worth a step of their own.

use crate::IngestConfig;
use conveyor_domain::limits;
use conveyor_domain::list::{Position, RejectedRow};
use conveyor_domain::params::Params;
use conveyor_domain::task_input::{TaskBody, TaskInput};
use conveyor_lists::Record;

/// Some records of a list, in order. Where it ends depends on the records and the configuration alone, so two ingesters cut
/// alike.
#[derive(Debug, Default)]
pub struct Gathered {
    pub rows: Vec<(u32, TaskInput)>,
    pub rejected: Vec<RejectedRow>,
    pub next: Position,
    bytes: usize,
}

impl Gathered {
    pub fn add(&mut self, record: Record, job: &Params, config: &IngestConfig) {
        let Record { index, line, offset, row } = record;
        match row.and_then(|row| row.check(job, config.param_policy)) {
            Ok(input) => {
                self.bytes += size_of_input(&input);
                self.rows.push((index, input));
            }
            Err(invalid) => {
                self.bytes += invalid.value.len();
                self.rejected.push(RejectedRow::new(index, line, offset, invalid));
            }
        }
    }

    pub fn is_full(&self, config: &IngestConfig) -> bool {
        self.records() >= config.chunk_rows as usize || self.bytes >= limits::CHUNK_MAX_BYTES
    }

    pub fn records(&self) -> usize {
        self.rows.len() + self.rejected.len()
    }
}

/// About what a row takes; close enough to bound memory.
fn size_of_input(input: &TaskInput) -> usize {
    let pairs = |map: &Params| map.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>();
    let body = match &input.body {
        Some(TaskBody::Json(text) | TaskBody::Form(text)) => text.len(),
        None => 0,
    };
    let external_id = input.external_id.as_ref().map_or(0, String::len);
    input.url.len() + external_id + body + pairs(&input.params) + pairs(&input.metadata)
}
