use super::Time;
use crate::signed_url::Link;
use conveyor_domain::Export;
use conveyor_domain::export::{Progress, State};
use conveyor_wire as wire;
use conveyor_wire::ExportStatus;

pub(crate) fn started_export(export: &Export) -> wire::StartedExport {
    wire::StartedExport {
        export_id: export.id,
        status: status(export).into(),
        format: export.format.into(),
        created_at: Time(export.created),
        expires_at: Time(export.expires()),
    }
}

pub(crate) fn export(export: &Export, download: Option<Link>) -> wire::Export {
    let (download_url, download_url_expires_at) = download.map(|link| (link.url, Time(link.expires))).unzip();
    let Progress { tasks_done, tasks_total, bytes } = export.progress;
    wire::Export {
        export_id: export.id,
        status: status(export).into(),
        format: export.format.into(),
        progress: wire::Progress { tasks_done, tasks_total, bytes },
        error: if let State::Failed { error } = &export.state { Some(error.clone()) } else { None },
        download_url,
        download_url_expires_at,
        created_at: Time(export.created),
        expires_at: Time(export.expires()),
    }
}

fn status(export: &Export) -> ExportStatus {
    match export.state {
        State::Pending { .. } => ExportStatus::Pending,
        State::Running { .. } => ExportStatus::Running,
        State::Completed { .. } => ExportStatus::Completed,
        // One that was removed is not shown.
        State::Failed { .. } | State::Removed { .. } => ExportStatus::Failed,
    }
}
