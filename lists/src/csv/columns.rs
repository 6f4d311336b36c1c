//! Which columns of a CSV make a task, as its specification and its first record tell.

use super::cells::Cells;
use conveyor_domain::CsvSpec;
use conveyor_domain::ingest::list::Column;

/// From 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Columns {
    pub url: usize,
    pub external_id: Option<usize>,
}

/// Says which column there is not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotFound(pub String);

/// What the first record turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum First {
    Header(Columns),
    Row(Columns),
}

/// The columns of a list that begins with this record: the header that was specified or, without a specification, a header
/// if it names a `url`. Otherwise the URL comes first.
pub(crate) fn of_first_record(spec: Option<&CsvSpec>, first: Cells<'_>) -> Result<First, NotFound> {
    match spec {
        None => {
            let named = |name| find(first, |cell| cell.eq_ignore_ascii_case(name));
            Ok(match named("url") {
                Some(url) => First::Header(Columns { url, external_id: named("external_id") }),
                None => First::Row(Columns::default()),
            })
        }
        Some(spec) => each(spec, |column| in_header(column, first)).map(First::Header),
    }
}

/// The columns of a list without a header. A record that is too short for them is a bad row, no more.
pub(crate) fn without_header(spec: &CsvSpec) -> Result<Columns, NotFound> {
    each(spec, |column| match column {
        Column::Index(index) => Ok(*index as usize),
        Column::Name(name) => Err(NotFound(format!("column {name:?} is named, but the list has no header"))),
    })
}

/// The columns of a list that ended before its header: nobody will look for them.
pub(crate) fn of_empty_list(spec: Option<&CsvSpec>) -> Columns {
    spec.and_then(|spec| without_header(spec).ok()).unwrap_or_default()
}

fn each(spec: &CsvSpec, find: impl Fn(&Column) -> Result<usize, NotFound>) -> Result<Columns, NotFound> {
    Ok(Columns { url: find(&spec.url)?, external_id: spec.external_id.as_ref().map(find).transpose()? })
}

fn in_header(column: &Column, header: Cells<'_>) -> Result<usize, NotFound> {
    match column {
        Column::Index(index) if (*index as usize) < header.len() => Ok(*index as usize),
        Column::Index(index) => {
            Err(NotFound(format!("no column {index} (from 0): the header has {}", header.len())))
        }
        Column::Name(name) => {
            let wanted = name.trim();
            let folded = wanted.to_lowercase();
            find(header, |cell| cell == wanted)
                .or_else(|| find(header, |cell| cell.to_lowercase() == folded))
                .ok_or_else(|| NotFound(format!("no column {name:?} in the header")))
        }
    }
}

fn find(header: Cells<'_>, is_wanted: impl Fn(&str) -> bool) -> Option<usize> {
    header.iter().position(|cell| str::from_utf8(cell).is_ok_and(|cell| is_wanted(cell.trim())))
}
