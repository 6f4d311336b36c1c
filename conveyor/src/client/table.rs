//! Lists of the API on standard output: for programs as one document, for people as a table, page by page.

use super::failure::Failure;
use super::print::{self, Output, clean};
use conveyor_client::Pages;
use futures::{StreamExt, TryStreamExt};
use serde::de::DeserializeOwned;
use std::pin::pin;

/// A column: what it is called, how wide it is at least, and what it shows of a row. The last ones need no width.
pub type Column<R> = (&'static str, u16, fn(&R) -> String);

/// Prints a list whose items have a row each.
pub async fn list<T: DeserializeOwned>(
    pages: Pages<T>,
    columns: &[Column<T>],
    output: Output,
) -> Result<(), Failure> {
    list_of_rows(pages, |item| vec![item], columns, output).await
}

pub async fn list_of_rows<T: DeserializeOwned, R>(
    pages: Pages<T>,
    rows: impl Fn(T) -> Vec<R>,
    columns: &[Column<R>],
    output: Output,
) -> Result<(), Failure> {
    if output.json {
        return document(pages).await;
    }
    let mut pages = pin!(pages.pages().enumerate());
    while let Some((n, page)) = pages.next().await {
        let mut read = Vec::new();
        for item in &page? {
            read.extend(rows(item.read()?));
        }
        if n == 0 || !read.is_empty() {
            print::line(&text(&read, columns, n == 0))?;
        }
    }
    Ok(())
}

/// A part of a table. It keeps its shape from part to part.
pub fn text<R>(rows: &[R], columns: &[Column<R>], with_header: bool) -> String {
    let mut table = print::plain_table();
    if with_header {
        table.set_header(columns.iter().map(|(name, ..)| name));
    }
    for row in rows {
        table.add_row(columns.iter().map(|(.., cell)| clean(&cell(row))));
    }
    print::fix_widths(&mut table, columns.iter().map(|(_, width, _)| *width).filter(|width| *width > 0));
    print::table_text(table)
}

/// One document, written as its parts arrive. If a page fails the document stays open: half a list must not pass for one.
pub async fn document<T: DeserializeOwned>(pages: Pages<T>) -> Result<(), Failure> {
    let opening = format!("{{\"{}\":[", pages.name());
    let mut pages = pin!(pages.pages());
    let mut before = opening.as_str();
    while let Some(page) = pages.try_next().await? {
        let mut text = String::new();
        for item in &page {
            text.push_str(before);
            text.push_str(item.text());
            before = ",";
        }
        print::out(&text)?;
    }
    let opening = if before == "," { "" } else { before };
    print::line(&format!("{opening}]}}"))
}

/// The text, or a dash in its place.
pub fn or_dash(text: Option<&impl ToString>) -> String {
    text.map_or_else(|| "-".to_owned(), ToString::to_string)
}
