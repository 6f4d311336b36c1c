use super::ClientArgs;
use clap::{Args, ValueEnum};
use conveyor_domain as domain;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The id of the job
    pub job: String,

    /// The file to write. It is there once it is whole
    #[arg(long, env = "CONVEYOR_OUT", value_name = "FILE")]
    pub out: PathBuf,

    /// A run of the job other than the latest
    #[arg(long, env = "CONVEYOR_RUN")]
    pub run: Option<String>,

    /// What is written: the bodies of successful tasks, or a row for every task
    #[arg(long, env = "CONVEYOR_FORMAT", value_enum, default_value_t = ExportFormat::Zip)]
    pub format: ExportFormat,

    /// Go on with an export that was begun before, and not fetched
    #[arg(long, env = "CONVEYOR_EXPORT", value_name = "EXPORT")]
    pub export: Option<String>,

    #[command(flatten)]
    pub client: ClientArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Bodies, as <task id>.<type>
    Zip,
    /// Tasks, a JSON object a line
    Jsonl,
    /// Tasks, for a spreadsheet
    Csv,
}

impl From<ExportFormat> for domain::ExportFormat {
    fn from(given: ExportFormat) -> domain::ExportFormat {
        match given {
            ExportFormat::Zip => domain::ExportFormat::Zip,
            ExportFormat::Jsonl => domain::ExportFormat::Jsonl,
            ExportFormat::Csv => domain::ExportFormat::Csv,
        }
    }
}
