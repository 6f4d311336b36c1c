//! Upload slots, as callers ask for them (SPEC 6.9).

use super::read;
use crate::problem::{ApiError, Result};
use crate::warnings::Warnings;
use conveyor_domain::ingest::list::Column;
use conveyor_domain::ingest::upload::Declared;
use conveyor_domain::{CsvSpec, ListFault, ListSpec};
use conveyor_wire::{CreateInput, CsvBody, ListType};

#[derive(Debug)]
pub(crate) struct InputRequest {
    pub spec: ListSpec,
    pub declared: Declared,
    pub multipart: bool,
}

impl InputRequest {
    pub fn parse(body: &[u8], list_max_bytes: u64, warnings: &Warnings) -> Result<InputRequest> {
        let CreateInput { kind, csv, size_bytes: size, sha256, multipart, part_bytes } =
            read(body, warnings)?;
        let spec = match (kind, csv) {
            (ListType::Csv, csv) => ListSpec::Csv { csv: csv.map(parse_csv).transpose()? },
            (ListType::Jsonl, None) => ListSpec::Jsonl,
            (ListType::Lines, None) => ListSpec::Lines,
            (ListType::Jsonl | ListType::Lines, Some(_)) => {
                return Err(ApiError::invalid("`csv` needs `type` \"csv\"."));
            }
        };
        if size.is_some_and(|size| size > list_max_bytes) {
            return Err(too_large(list_max_bytes));
        }
        let multipart = multipart.unwrap_or(false);
        if part_bytes.is_some() && !multipart {
            return Err(ApiError::invalid("`part_bytes` needs `multipart` true."));
        }
        let part_bytes = part_bytes.map(|bytes| bytes.0);
        let declared = Declared { size, sha256: sha256.map(|digest| digest.0), part_bytes };
        Ok(InputRequest { spec, declared, multipart })
    }
}

pub(crate) fn too_large(max: u64) -> ApiError {
    ApiError::list(ListFault::SourceTooLarge, None, &format!("The list is larger than {max} bytes."))
}

fn parse_csv(CsvBody { delimiter, quote, header, fields }: CsvBody) -> Result<CsvSpec> {
    let delimiter = delimiter.map_or(b',', |character| character.0);
    let quote = quote.map_or(b'"', |character| character.0);
    if delimiter == quote {
        return Err(ApiError::invalid("`csv.delimiter` and `csv.quote` must differ."));
    }
    let header = header.unwrap_or(false);
    check_column("csv.fields.url", Some(&fields.url), header)?;
    check_column("csv.fields.external_id", fields.external_id.as_ref(), header)?;
    Ok(CsvSpec { delimiter, quote, header, url: fields.url, external_id: fields.external_id })
}

fn check_column(path: &str, column: Option<&Column>, header: bool) -> Result<()> {
    let refuse = |why: &str| Err(ApiError::invalid(format!("`{path}` {why}.")));
    match column {
        Some(Column::Name(name)) if name.is_empty() => refuse("must not be empty"),
        Some(Column::Name(_)) if !header => refuse("is a name, which needs `csv.header` true"),
        Some(Column::Name(_) | Column::Index(_)) | None => Ok(()),
    }
}
