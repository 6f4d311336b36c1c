//! What is there under a prefix.

use super::{Objects, length};
use conveyor_store::Result;
use conveyor_store::port::{BlobKey, Listed};

/// What one call returns at most.
const PAGE_MAX: usize = 1_000;

/// S3 lists keys in the order of their bytes, and goes on behind any text, whether or not it is a key.
pub async fn under(
    objects: &Objects,
    prefix: &BlobKey,
    after: Option<&BlobKey>,
    limit: usize,
) -> Result<Vec<Listed>> {
    let prefix = format!("{prefix}/");
    let mut after = after.map(|key| key.as_str().to_owned());
    let mut listed: Vec<Listed> = Vec::new();
    while listed.len() < limit {
        let wanted = (limit - listed.len()).min(PAGE_MAX);
        let list = objects
            .quick
            .list_objects_v2()
            .bucket(&objects.bucket)
            .prefix(&prefix)
            .set_start_after(after.take())
            .max_keys(i32::try_from(wanted).unwrap_or(i32::MAX));
        let page = list.send().await.map_err(|e| objects.unavailable("ListObjectsV2", &e))?;
        for object in page.contents() {
            let Some(name) = object.key() else { continue };
            after = Some(name.to_owned());
            // Somebody else's: no reader could name it.
            if let Ok(key) = name.parse::<BlobKey>() {
                listed.push(Listed { key, size: length(object.size())? });
            }
        }
        if page.is_truncated() != Some(true) || after.is_none() {
            break;
        }
    }
    Ok(listed)
}
