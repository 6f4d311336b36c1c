//! `conveyor audit --deep`: every body of a run, read and verified by the server, page after page.

use crate::client::failure::Failure;
use crate::client::http::{Answer, Api};
use crate::client::print::Output;
use crate::client::progress;
use serde::{Deserialize, Serialize};

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
    pub at_fault: Vec<Fault>,
    pub more_at_fault: u64,
}

#[derive(Debug, Deserialize, Serialize)]
pub struct Fault {
    pub task_id: String,
    pub fault: String,
}

#[derive(Debug, Deserialize)]
struct Page {
    read: u64,
    bytes: u64,
    unverified: u64,
    at_fault: Vec<Fault>,
    more_at_fault: u64,
    next_cursor: Option<String>,
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

    fn add(&mut self, page: Page) {
        self.read += page.read;
        self.bytes += page.bytes;
        self.unverified += page.unverified;
        self.at_fault.extend(page.at_fault);
        let more = self.at_fault.split_off(self.at_fault.len().min(NAMED_MAX));
        self.more_at_fault += page.more_at_fault + more.len() as u64;
    }
}

/// Follows the pages to the last. Nothing is kept between them: they may take hours.
pub async fn ask(api: &Api, job: &str, run: &str, expected: u64, output: Output) -> Result<Bodies, Failure> {
    let bar = progress::bar(output, BAR);
    bar.set_length(expected);
    let mut bodies = Bodies::default();
    let mut cursor: Option<String> = None;
    let mut empty = 0;
    loop {
        let mut url = api.url(&["jobs", job, "runs", run, "audit", "bodies"]);
        if let Some(cursor) = &cursor {
            url.query_pairs_mut().append_pair("cursor", cursor);
        }
        let answer: Answer<Page> = api.get(url).await.map_err(|failure| bodies.found_before(failure))?;
        let mut page = answer.document;
        bar.inc(page.read);
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
