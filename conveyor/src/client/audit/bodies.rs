//! `conveyor audit --deep`: every body of a run, read and verified by the server, page after page.

use crate::client::failure::Failure;
use crate::client::http::{Answer, Api};
use crate::client::print::Output;
use crate::client::progress;
use serde::{Deserialize, Serialize};

const BAR: &str = "verifying {bar:24} {pos}/{len} {rate}, eta {eta}";
/// As many tasks are named as by one page.
const NAMED_MAX: usize = 20;

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
    loop {
        let mut url = api.url(&["jobs", job, "runs", run, "audit", "bodies"]);
        if let Some(cursor) = &cursor {
            url.query_pairs_mut().append_pair("cursor", cursor);
        }
        let Answer { document: mut page, .. }: Answer<Page> = api.get(url).await?;
        bar.inc(page.read);
        let next = page.next_cursor.take();
        bodies.add(page);
        if next.is_none() {
            return Ok(bodies);
        }
        if next == cursor {
            return Err(Failure::not_understood("the cursor of the bodies does not move"));
        }
        cursor = next;
    }
}
