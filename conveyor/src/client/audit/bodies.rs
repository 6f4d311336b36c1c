//! `conveyor audit --deep`: every body of a run, read and verified by the server, page after page.

use crate::client::failure::Failure;
use crate::client::print::Output;
use crate::client::progress;
use conveyor_client::Client;
use conveyor_client::wire::{BodiesAudit, BodyFault};
use serde::Serialize;

const BAR: &str = "verifying {bar:24} {pos}/{len} {rate}, eta {eta}";
/// As many tasks are named as by one page.
const NAMED_MAX: usize = 20;
/// A page may look at `look_rows_max` rows and find no successful one: 100 pages are a run without any.
const EMPTY_PAGES_MAX: u32 = 1_000;

/// What was found in all pages.
#[derive(Debug, Default, Serialize)]
pub struct Bodies {
    pub read: u64,
    pub bytes: u64,
    pub unverified: u64,
    pub at_fault: Vec<BodyFault>,
    pub more_at_fault: u64,
}

impl Bodies {
    /// Whether all of them are what was written.
    pub fn agree(&self) -> bool {
        self.at_fault.is_empty()
    }

    /// What was found before a page failed is not lost.
    fn found_before(&self, failure: Failure) -> Failure {
        if self.agree() {
            return failure;
        }
        let named: Vec<_> = self.at_fault.iter().map(|f| format!("{} ({})", f.task_id, f.fault)).collect();
        let more = match self.more_at_fault {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        failure.with_hint(format!("bodies at fault that were found before: {}{more}", named.join(", ")))
    }

    fn add(&mut self, page: BodiesAudit) {
        self.read += u64::from(page.read);
        self.bytes += page.bytes;
        self.unverified += u64::from(page.unverified);
        self.at_fault.extend(page.at_fault);
        let more = self.at_fault.split_off(self.at_fault.len().min(NAMED_MAX));
        self.more_at_fault += u64::from(page.more_at_fault) + more.len() as u64;
    }
}

/// Follows the pages to the last. Nothing is kept between them: they may take hours.
pub async fn ask(
    api: &Client,
    job: &str,
    run: &str,
    expected: u64,
    output: Output,
) -> Result<Bodies, Failure> {
    let bar = progress::bar(output, BAR);
    bar.set_length(expected);
    let mut bodies = Bodies::default();
    let mut cursor: Option<String> = None;
    let mut empty = 0;
    loop {
        let mut call = api.audit_bodies(job, run);
        if let Some(cursor) = &cursor {
            call = call.query("cursor", cursor);
        }
        let mut page = call.await.map_err(|error| bodies.found_before(error.into()))?.document;
        bar.inc(page.read.into());
        // Cursors are sealed: of the same place no two are equal, so they do not show whether anything moves.
        empty = if page.read == 0 { empty + 1 } else { 0 };
        cursor = page.next_cursor.take();
        bodies.add(page);
        if cursor.is_none() {
            return Ok(bodies);
        }
        if empty > EMPTY_PAGES_MAX {
            let why = format!("{empty} pages in a row have no body, and each names a next one");
            return Err(bodies.found_before(Failure::not_understood(why)));
        }
    }
}
