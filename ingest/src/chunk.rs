//! Records gathered until they are worth a step of their own.

use crate::IngestConfig;
use conveyor_domain::ingest::list::Position;
use conveyor_domain::{
    HeaderSeal, JobId, Params, RejectedRow, TaskBody, TaskInput, UnknownCounts, UploadId, limits,
};
use conveyor_lists::{Record, Row};

/// Some records of a list, in order. Where it ends depends on the records and the configuration alone, so two ingesters cut
/// alike.
#[derive(Debug, Default)]
pub struct Gathered {
    pub rows: Vec<(u32, TaskInput)>,
    pub rejected: Vec<RejectedRow>,
    /// Fields of the rows that were ignored.
    pub unknown: UnknownCounts,
    pub next: Position,
    bytes: usize,
}

/// Whose the headers in a list are, so that nobody who reads the store reads them (SPEC 13).
#[derive(Clone, Debug)]
pub struct Headers {
    pub seal: Option<HeaderSeal>,
    /// What the API sealed them for, if it staged the list.
    pub list: UploadId,
    /// What they are sealed for in rows.
    pub job: JobId,
}

impl Headers {
    fn open(&self, row: Row) -> Row {
        match &self.seal {
            Some(seal) => row.opened(seal, &self.list),
            None => row,
        }
    }

    fn seal(&self, input: &mut TaskInput) {
        if let Some(seal) = &self.seal {
            seal.seal(&self.job, &mut input.params);
        }
    }
}

impl Gathered {
    pub fn add(&mut self, record: Record, job: &Params, config: &IngestConfig, headers: &Headers) {
        let Record { index, line, offset, row } = record;
        if let Ok(row) = &row
            && !config.rules.unknown_fields.are_refused()
        {
            // Also of a row that is rejected: a misspelt field may be why.
            row.unknown_fields().iter().for_each(|field| self.unknown.add(field));
        }
        match row.and_then(|row| headers.open(row).check(job, config.rules)) {
            Ok(mut input) => {
                // Measured as it was read: where a chunk ends must not depend on who reads it.
                self.bytes += size_of_input(&input);
                headers.seal(&mut input);
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
