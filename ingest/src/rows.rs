//! The tasks of a list that was accepted before, once more: for whoever has to write rows that were lost. Nothing is logged,
//! and nothing is reported about records that are not tasks.

use crate::attempt::Trouble;
use crate::chunk::{Gathered, Headers};
use crate::source::{self, Reader};
use crate::{IngestConfig, Ingester};
use conveyor_domain::ingest::Source;
use conveyor_domain::{JobId, JobSpec, TaskInput};
use std::sync::Arc;

/// A list that is read from its start.
#[derive(Debug)]
pub struct RowsAgain {
    reader: Reader,
    spec: Arc<JobSpec>,
    config: IngestConfig,
    headers: Headers,
}

impl Ingester {
    /// Opens a list as its job was accepted with it. The same bytes give the same tasks at the same indexes.
    pub async fn rows_again(
        &self,
        job: JobId,
        source: &Source,
        spec: Arc<JobSpec>,
    ) -> Result<RowsAgain, Trouble> {
        let own = self.config;
        let config = IngestConfig { rules: source.rules(own.rules.params), ..own };
        let (_, reader) = source::open(&self.backend, source, &config).await?;
        let headers = Headers { seal: self.headers.clone(), list: source.upload, job };
        Ok(RowsAgain { reader, spec, config, headers })
    }
}

impl RowsAgain {
    /// The tasks of some more records, which may be none; `None` at the end of the list.
    pub async fn next(&mut self) -> Result<Option<Vec<(u32, TaskInput)>>, Trouble> {
        let mut gathered = Gathered::default();
        while !gathered.is_full(&self.config) {
            let Some(record) = self.reader.next().await? else { break };
            gathered.add(record, &self.spec.params, &self.config, &self.headers);
        }
        Ok((gathered.records() > 0).then_some(gathered.rows))
    }
}
