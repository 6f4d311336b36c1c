//! Dead letters as a person reads them.

use super::document::Letter;
use super::{filtered, url};
use crate::client::args::{DlqListArgs, DlqShowArgs};
use crate::client::failure::Failure;
use crate::client::http::{Answer, Api};
use crate::client::paging::{self, Items};
use crate::client::print::{self, Output, clean};
use conveyor_domain::job::failure::cut;
use conveyor_domain::limits::PAGE_MAX;
use futures::{Stream, StreamExt};
use serde_json::value::RawValue;
use std::pin::pin;
use std::process::ExitCode;
use url::Url;

const HEADER: [&str; 7] = ["letter", "run", "given up", "tries", "sent again", "next sweep", "error"];
const WIDTHS: [u16; 6] = [28, 28, 26, 7, 12, 13];
const ERROR_CHARS_MAX: usize = 80;

pub async fn list(api: &Api, args: &DlqListArgs, output: Output) -> Result<ExitCode, Failure> {
    let url = filtered(api, [("job_id", &args.job), ("run_id", &args.run), ("error", &args.error)]);
    let pages = pages(api, url);
    if output.json {
        paging::print_document(pages, "dead_letters").await?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut pages = pin!(pages.enumerate());
    while let Some((n, page)) = pages.next().await {
        let mut table = print::plain_table();
        if n == 0 {
            table.set_header(HEADER);
        }
        for item in &page? {
            table.add_row(cells(&read(item)?).map(|cell| clean(&cell)));
        }
        print::fix_widths(&mut table, &WIDTHS);
        if n == 0 || !table.is_empty() {
            print::print_table(table)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub fn pages(api: &Api, mut url: Url) -> impl Stream<Item = Result<Items, Failure>> + use<'_> {
    url.query_pairs_mut().append_pair("limit", &PAGE_MAX.to_string());
    paging::pages(api, url, "dead_letters")
}

pub fn read(item: &RawValue) -> Result<Letter, Failure> {
    serde_json::from_str(item.get()).map_err(|e| Failure::not_understood(e.to_string()))
}

fn cells(letter: &Letter) -> [String; 7] {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    [
        letter.letter_id.clone(),
        or_dash(&letter.run_id),
        letter.last_at.clone(),
        letter.tries.to_string(),
        letter.redrives.to_string(),
        letter.next_sweep.clone(),
        cut(&or_dash(&letter.last_error), ERROR_CHARS_MAX).to_owned(),
    ]
}

pub async fn show(api: &Api, args: &DlqShowArgs, output: Output) -> Result<ExitCode, Failure> {
    let answer: Answer<Letter> = api.get(url(api, &[&args.letter])).await?;
    print::line(&if output.json { answer.text } else { print::facts(rows(&answer.document)) })?;
    Ok(ExitCode::SUCCESS)
}

fn rows(letter: &Letter) -> Vec<(String, String)> {
    let given = |name: &str, value: &Option<String>| value.clone().map(|value| (name.to_owned(), value));
    let row = |name: &str, value: String| Some((name.to_owned(), value));
    let rows = [
        row("letter", letter.letter_id.clone()),
        given("job", &letter.job_id),
        given("run", &letter.run_id),
        row("message", letter.body.clone()),
        row("first given up", letter.first_at.clone()),
        row("last given up", letter.last_at.clone()),
        row("tries that failed", letter.tries.to_string()),
        row("sent again", letter.redrives.to_string()),
        given("last error", &letter.last_error),
        row("next sweep", letter.next_sweep.clone()),
    ];
    rows.into_iter().flatten().collect()
}
