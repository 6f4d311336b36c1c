//! How a list is to be read: as the flags say, and as its first bytes tell where they do not.

use super::super::args::ListFormat;
use conveyor_client::wire::{Character, CreateInput, CsvBody, CsvFields};
use conveyor_domain::ingest::list::Column;
use conveyor_domain::{CsvSpec, ListFault, ListSpec};
use conveyor_lists::{ListError, ListReader, sniff};

/// The flags that say how a list is to be read.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    pub format: ListFormat,
    pub delimiter: Option<u8>,
}

impl Told {
    /// The specification of a list whose expanded bytes begin like this.
    pub async fn spec(self, head: &[u8]) -> ListSpec {
        match (self.format, self.delimiter) {
            // Only CSV has a delimiter: naming one names the format.
            (ListFormat::Auto | ListFormat::Csv, Some(delimiter)) => {
                ListSpec::Csv { csv: Some(csv_spec(head, delimiter).await) }
            }
            (ListFormat::Auto, None) => sniff(head),
            (ListFormat::Csv, None) => ListSpec::Csv { csv: None },
            (ListFormat::Jsonl, _) => ListSpec::Jsonl,
            (ListFormat::Lines, _) => ListSpec::Lines,
        }
    }
}

/// A CSV whose first record names a `url` has a header; otherwise the URL comes first. The decoder itself is asked, so
/// that there is one opinion on what the first record is.
async fn csv_spec(head: &[u8], delimiter: u8) -> CsvSpec {
    let named = |name: &str| Column::Name(name.to_owned());
    let with_header =
        |external_id| CsvSpec { delimiter, quote: b'"', header: true, url: named("url"), external_id };
    for external_id in [Some(named("external_id")), None] {
        let csv = with_header(external_id);
        match ListReader::open(head, &ListSpec::Csv { csv: Some(csv.clone()) }).await {
            Err(ListError::Fault { fault: ListFault::ColumnNotFound, .. }) => {}
            Ok(_) | Err(_) => return csv,
        }
    }
    CsvSpec { delimiter, quote: b'"', header: false, url: Column::Index(0), external_id: None }
}

/// `csv`, `jsonl` or `lines`.
pub fn format_name(spec: &ListSpec) -> &'static str {
    match spec {
        ListSpec::Csv { .. } => "csv",
        ListSpec::Jsonl => "jsonl",
        ListSpec::Lines => "lines",
    }
}

/// The specification as `POST /v1/job_inputs` takes it.
pub fn create_input(spec: &ListSpec) -> CreateInput {
    let csv = match spec {
        ListSpec::Csv { csv: Some(csv) } => {
            let CsvSpec { delimiter, quote, header, url, external_id } = csv;
            let fields = CsvFields { url: url.clone(), external_id: external_id.clone() };
            let (delimiter, quote) = (Some(Character(*delimiter)), Some(Character(*quote)));
            Some(CsvBody { delimiter, quote, header: Some(*header), fields })
        }
        ListSpec::Csv { csv: None } | ListSpec::Jsonl | ListSpec::Lines => None,
    };
    CreateInput { csv, ..CreateInput::of(spec.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    async fn told(format: ListFormat, delimiter: Option<u8>, head: &str) -> Value {
        json!(create_input(&Told { format, delimiter }.spec(head.as_bytes()).await))
    }

    #[tokio::test]
    async fn the_first_bytes_tell_what_the_flags_do_not() {
        let auto = async |head| told(ListFormat::Auto, None, head).await;
        assert_eq!(auto("{\"url\":").await, json!({"type": "jsonl"}));
        assert_eq!(auto("id,url\n").await, json!({"type": "csv"}));
        assert_eq!(auto("https://a.example\n").await, json!({"type": "lines"}));
        assert_eq!(told(ListFormat::Lines, None, "id,url\n").await, json!({"type": "lines"}));
        assert_eq!(told(ListFormat::Csv, None, "https://a.example\n").await, json!({"type": "csv"}));
    }

    #[tokio::test]
    async fn a_delimiter_leaves_the_columns_to_the_first_record() {
        let csv = async |head| told(ListFormat::Auto, Some(b'|'), head).await["csv"].clone();
        let with = |header: bool, fields: Value| json!({"delimiter": "|", "quote": "\"", "header": header, "fields": fields});
        let both = json!({"url": "url", "external_id": "external_id"});
        assert_eq!(csv("\n\"URL\"|External_ID\nhttps://a.example|x").await, with(true, both));
        assert_eq!(csv("id| url \n1|https://a.example\n").await, with(true, json!({"url": "url"})));
        assert_eq!(csv("https://a.example/,x|1\n").await, with(false, json!({"url": 0})));
    }
}
