use super::Time;
use conveyor_domain::ingest::upload::Part;
use conveyor_domain::{Staged, Timestamp, Upload, limits};
use conveyor_wire as wire;
use std::collections::BTreeMap;

/// `part_min_bytes`: what parts must have, where that matters.
pub(crate) fn input(upload: &Upload, part_min_bytes: Option<u64>) -> wire::Input {
    let staged = upload.staged.as_ref();
    // Of what is there, where that is known; otherwise as it was declared.
    let sha256 = staged.and_then(Staged::sha256).or(upload.declared.sha256.as_deref());
    wire::Input {
        file_input_id: upload.id,
        kind: wire::ListType::from(&upload.spec).into(),
        status: upload.status().into(),
        size_bytes: staged.map(|staged| staged.size).or(upload.declared.size),
        sha256: sha256.map(str::to_owned),
        upload: None,
        multipart: upload.multipart.then_some(wire::Multipart {
            parts_max: limits::UPLOAD_PARTS_MAX,
            part_bytes: upload.declared.part_bytes,
            part_min_bytes,
            numbers_max: limits::PART_URLS_MAX,
        }),
        parts: None,
        created_at: Time(upload.created),
        expires_at: Time(upload.expires),
    }
}

/// Those that are there, of an upload in parts.
pub(crate) fn parts(upload: &Upload, parts: &[Part]) -> Option<Vec<wire::Part>> {
    let part = |Part { number, staged }: &Part| wire::Part {
        number: *number,
        size_bytes: staged.size,
        etag: staged.etag.clone(),
    };
    upload.multipart.then(|| parts.iter().map(part).collect())
}

pub(crate) fn whole_target(
    url: String,
    headers: BTreeMap<String, String>,
    expires: Timestamp,
) -> wire::UploadTarget {
    wire::UploadTarget { number: None, method: "PUT".into(), url, headers, expires_at: Time(expires) }
}

pub(crate) fn part_target(number: u32, url: String, expires: Timestamp) -> wire::UploadTarget {
    wire::UploadTarget { number: Some(number), ..whole_target(url, BTreeMap::new(), expires) }
}
