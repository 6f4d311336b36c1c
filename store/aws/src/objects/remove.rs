//! Everything under a prefix, also what was only begun.

use super::Objects;
use aws_sdk_s3::types::{Delete, ObjectIdentifier};
use conveyor_store::port::BlobKey;
use conveyor_store::{Error, Result};

/// Uploads in parts first: one that is completed meanwhile is among the objects by then.
pub async fn under(objects: &Objects, prefix: &BlobKey) -> Result<()> {
    let prefix = format!("{prefix}/");
    abort_uploads(objects, &prefix).await?;
    delete_objects(objects, &prefix).await
}

/// Of each listing the first page, again and again: what was on one is gone by the time of the next. A server that lists
/// what it said is gone is not asked for ever.
#[derive(Default)]
struct FirstPages {
    first_before: Option<String>,
}

impl FirstPages {
    fn check(&mut self, first: &str) -> Result<()> {
        if self.first_before.as_deref() == Some(first) {
            return Err(Error::Unavailable(format!("{first} was removed and is still there")));
        }
        self.first_before = Some(first.to_owned());
        Ok(())
    }
}

async fn abort_uploads(objects: &Objects, prefix: &str) -> Result<()> {
    let mut pages = FirstPages::default();
    loop {
        let list = objects.quick.list_multipart_uploads().bucket(&objects.bucket).prefix(prefix);
        let page = list.send().await.map_err(|e| objects.unavailable("ListMultipartUploads", &e))?;
        let uploads: Vec<(&str, &str)> =
            page.uploads().iter().filter_map(|upload| Some((upload.key()?, upload.upload_id()?))).collect();
        let Some((_, first)) = uploads.first() else { return Ok(()) };
        pages.check(first)?;
        for (key, upload) in &uploads {
            objects.abort_upload(key, upload).await?;
        }
        if page.is_truncated() != Some(true) {
            return Ok(());
        }
    }
}

async fn delete_objects(objects: &Objects, prefix: &str) -> Result<()> {
    let mut pages = FirstPages::default();
    loop {
        let list = objects.quick.list_objects_v2().bucket(&objects.bucket).prefix(prefix);
        let page = list.send().await.map_err(|e| objects.unavailable("ListObjectsV2", &e))?;
        let keys: Vec<&str> = page.contents().iter().filter_map(|object| object.key()).collect();
        let Some(first) = keys.first() else { return Ok(()) };
        pages.check(first)?;
        delete(objects, &keys).await?;
        if page.is_truncated() != Some(true) {
            return Ok(());
        }
    }
}

/// A page has at most 1,000 keys, and so has this call.
async fn delete(objects: &Objects, keys: &[&str]) -> Result<()> {
    let invalid = |e: aws_sdk_s3::error::BuildError| Error::Corrupt(e.to_string());
    let named = keys.iter().map(|key| ObjectIdentifier::builder().key(*key).build().map_err(invalid));
    let named = named.collect::<Result<Vec<_>>>()?;
    let all = Delete::builder().set_objects(Some(named)).quiet(true).build().map_err(invalid)?;
    let delete = objects.quick.delete_objects().bucket(&objects.bucket).delete(all);
    let answer = delete.send().await.map_err(|e| objects.unavailable("DeleteObjects", &e))?;
    match answer.errors().iter().find(|error| error.code() != Some("NoSuchKey")) {
        None => Ok(()),
        Some(error) => {
            let text = |value: Option<&str>| value.unwrap_or("unknown").to_owned();
            let (key, code) = (text(error.key()), text(error.code()));
            Err(Error::Unavailable(format!("DeleteObjects: {key}: {code}")))
        }
    }
}
