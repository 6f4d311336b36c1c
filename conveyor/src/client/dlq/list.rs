//! Dead letters as a person reads them.

use super::selected;
use crate::client::args::{DlqListArgs, DlqShowArgs};
use crate::client::failure::Failure;
use crate::client::print::{self, Output};
use crate::client::table::{self, Column, or_dash};
use conveyor_client::Client;
use conveyor_client::wire::Letter;
use conveyor_domain::job::failure::cut;
use std::process::ExitCode;

const ERROR_CHARS_MAX: usize = 80;
const COLUMNS: [Column<Letter>; 7] = [
    ("letter", 28, |letter| letter.letter_id.to_string()),
    ("run", 28, |letter| or_dash(letter.run_id.as_ref())),
    ("given up", 26, |letter| letter.last_at.to_string()),
    ("tries", 7, |letter| letter.tries.to_string()),
    ("sent again", 12, |letter| letter.redrives.to_string()),
    ("next sweep", 13, |letter| letter.next_sweep.to_string()),
    ("error", 0, |letter| cut(&or_dash(letter.last_error.as_ref()), ERROR_CHARS_MAX).to_owned()),
];

pub async fn list(api: &Client, args: &DlqListArgs, output: Output) -> Result<ExitCode, Failure> {
    table::list(selected(api, &args.job, &args.run, &args.error), &COLUMNS, output).await?;
    Ok(ExitCode::SUCCESS)
}

pub async fn show(api: &Client, args: &DlqShowArgs, output: Output) -> Result<ExitCode, Failure> {
    let answer = api.dead_letter(&args.letter).await?;
    print::line(&if output.json { answer.text } else { print::facts(rows(&answer.document)) })?;
    Ok(ExitCode::SUCCESS)
}

fn rows(letter: &Letter) -> Vec<(String, String)> {
    let rows = [
        ("letter", Some(letter.letter_id.to_string())),
        ("job", letter.job_id.map(|job| job.to_string())),
        ("run", letter.run_id.map(|run| run.to_string())),
        ("message", Some(letter.body.clone())),
        ("first given up", Some(letter.first_at.to_string())),
        ("last given up", Some(letter.last_at.to_string())),
        ("tries that failed", Some(letter.tries.to_string())),
        ("sent again", Some(letter.redrives.to_string())),
        ("last error", letter.last_error.clone()),
        ("next sweep", Some(letter.next_sweep.to_string())),
    ];
    rows.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
