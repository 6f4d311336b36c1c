//! URLs by which callers write and read objects themselves, and what it takes to trust what they wrote (SPEC 5.6, 6.9).

use super::unfinished::Completed;
use super::{Objects, answer, etag, length, quoted};
use async_trait::async_trait;
use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_s3::types::ChecksumMode;
use aws_smithy_types::base64;
use conveyor_domain::ingest::upload::{Declared, Part};
use conveyor_domain::{Staged, Timestamp};
use conveyor_store::port::{BlobKey, DirectAccess, Found, Joined, SignedPut, Stored, Validity};
use conveyor_store::{Error, Result};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

#[async_trait]
impl DirectAccess for Objects {
    async fn put_url(
        &self,
        key: &BlobKey,
        content_type: &'static str,
        declared: &Declared,
        validity: Validity,
    ) -> Result<SignedPut> {
        let size = content_length(declared.size)?;
        let sha256 = declared.sha256.as_deref().map(base64_of_hex).transpose()?;
        let put = self.s3.put_object().bucket(&self.bucket).key(key.as_str()).content_type(content_type);
        let put = put.set_content_length(size).set_checksum_sha256(sha256);
        let signed =
            put.presigned(presigning(validity)?).await.map_err(|e| self.unavailable("PutObject", &e))?;
        Ok(SignedPut { url: signed.uri().to_owned(), headers: to_be_sent(signed.headers()) })
    }

    async fn get_url(
        &self,
        key: &BlobKey,
        content_type: &'static str,
        file_name: Option<&str>,
        validity: Validity,
    ) -> Result<String> {
        let get = self.s3.get_object().bucket(&self.bucket).key(key.as_str());
        let disposition = match file_name {
            Some(name) => format!("attachment; filename=\"{name}\""),
            None => "inline".to_owned(),
        };
        let get = get.response_content_type(content_type).response_content_disposition(disposition);
        let signed =
            get.presigned(presigning(validity)?).await.map_err(|e| self.unavailable("GetObject", &e))?;
        Ok(signed.uri().to_owned())
    }

    async fn find(&self, key: &BlobKey) -> Result<Option<Found>> {
        let head = self.quick.head_object().bucket(&self.bucket).key(key.as_str());
        match head.checksum_mode(ChecksumMode::Enabled).send().await {
            Ok(head) => {
                let stored = Stored { size: length(head.content_length())?, etag: etag(head.e_tag())? };
                Ok(Some(Found { stored, sha256: head.checksum_sha256().and_then(hex_of_base64) }))
            }
            Err(error) if answer::is_missing(&error) => Ok(None),
            Err(error) => Err(self.unavailable("HeadObject", &error)),
        }
    }

    async fn copy(&self, from: &BlobKey, pinned: &Stored, to: &BlobKey) -> Result<Stored> {
        let copy = self.s3.copy_object().bucket(&self.bucket).key(to.as_str());
        let copy = copy.copy_source(format!("{}/{from}", self.bucket));
        match copy.copy_source_if_match(quoted(&pinned.etag)).send().await {
            Ok(copied) => {
                let etag = etag(copied.copy_object_result().and_then(|result| result.e_tag()))?;
                Ok(Stored { size: pinned.size, etag })
            }
            Err(error) if answer::is_missing(&error) || answer::is_changed(&error) => Err(Error::Changed),
            Err(error) => Err(self.unavailable("CopyObject", &error)),
        }
    }

    async fn begin_parts(&self, key: &BlobKey, content_type: &'static str) -> Result<String> {
        self.begin_upload(key, Some(content_type)).await
    }

    async fn part_url(
        &self,
        key: &BlobKey,
        handle: &str,
        number: u32,
        size: Option<u64>,
        validity: Validity,
    ) -> Result<String> {
        let number = i32::try_from(number).map_err(|e| Error::Corrupt(e.to_string()))?;
        let part = self.s3.upload_part().bucket(&self.bucket).key(key.as_str());
        let part = part.upload_id(handle).part_number(number).set_content_length(content_length(size)?);
        let signed =
            part.presigned(presigning(validity)?).await.map_err(|e| self.unavailable("UploadPart", &e))?;
        Ok(signed.uri().to_owned())
    }

    async fn parts(&self, key: &BlobKey, handle: &str) -> Result<Option<Vec<Part>>> {
        let list = self.quick.list_parts().bucket(&self.bucket).key(key.as_str()).upload_id(handle);
        let mut pages = list.into_paginator().send();
        let mut parts = Vec::new();
        while let Some(page) = pages.next().await {
            let page = match page {
                Ok(page) => page,
                Err(error) if answer::is_no_upload(&error) => return Ok(None),
                Err(error) => return Err(self.unavailable("ListParts", &error)),
            };
            for part in page.parts() {
                let number = part.part_number().and_then(|number| u32::try_from(number).ok());
                let number = number.ok_or_else(|| Error::Unavailable("ListParts: no number".to_owned()))?;
                let staged = Staged::new(key.to_string(), length(part.size())?, etag(part.e_tag())?);
                parts.push(Part { number, staged });
            }
        }
        Ok(Some(parts))
    }

    async fn join_parts(&self, key: &BlobKey, handle: &str, parts: &[Part]) -> Result<Joined> {
        let numbered = |part: &Part| {
            let number = i32::try_from(part.number).map_err(|e| Error::Corrupt(e.to_string()))?;
            Ok((number, part.staged.etag.clone()))
        };
        let size = parts.iter().map(|part| part.staged.size).sum();
        let named = parts.iter().map(numbered).collect::<Result<Vec<_>>>()?;
        Ok(match self.complete_upload(key, handle, named).await? {
            Completed::Done(etag) => Joined::Done(Stored { size, etag }),
            Completed::Replaced => Joined::Replaced,
            Completed::Gone => Joined::Gone,
        })
    }
}

/// As the SDK takes it.
fn content_length(size: Option<u64>) -> Result<Option<i64>> {
    size.map(i64::try_from).transpose().map_err(|e| Error::Corrupt(e.to_string()))
}

/// To the second, as URLs have it.
fn presigning(Validity { from, until }: Validity) -> Result<PresigningConfig> {
    let seconds = |at: Timestamp| u64::try_from(at.as_ms() / 1000).unwrap_or(0);
    let (from, until) = (seconds(from), seconds(until));
    PresigningConfig::builder()
        .start_time(SystemTime::UNIX_EPOCH + Duration::from_secs(from))
        .expires_in(Duration::from_secs(until.saturating_sub(from).max(1)))
        .build()
        .map_err(|e| Error::Corrupt(e.to_string()))
}

/// The headers that whoever uses a URL has to send, as they are usually written: some clients take another case for another
/// header. The length of its body is something that every client sends by itself.
fn to_be_sent<'a>(signed: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, String> {
    let usual = |name: &str| match name {
        "content-type" => "Content-Type".to_owned(),
        other => other.to_owned(),
    };
    let others = signed.filter(|(name, _)| !matches!(*name, "content-length" | "host"));
    others.map(|(name, value)| (usual(name), value.to_owned())).collect()
}

fn base64_of_hex(hex: &str) -> Result<String> {
    let invalid = || Error::Corrupt("a declared sha256 is not one".to_owned());
    let digit = |byte: u8| char::from(byte).to_digit(16).ok_or_else(invalid);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).map_err(|_| invalid()),
        _ => Err(invalid()),
    };
    Ok(base64::encode(hex.as_bytes().chunks(2).map(byte).collect::<Result<Vec<u8>>>()?))
}

fn hex_of_base64(text: &str) -> Option<String> {
    Some(base64::decode(text).ok()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_two_spellings() {
        let (hex, base64) = ("00ff10".to_owned(), "AP8Q");
        assert_eq!(base64_of_hex(&hex), Ok(base64.to_owned()));
        assert_eq!(hex_of_base64(base64), Some(hex));
        assert!(base64_of_hex("0").is_err() && base64_of_hex("zz").is_err());
        assert_eq!(hex_of_base64("*"), None);
    }

    #[test]
    fn a_url_is_good_for_whole_seconds_and_at_least_one() {
        let good_for = |from, until| {
            let validity = Validity { from: Timestamp(from), until: Timestamp(until) };
            presigning(validity).unwrap().expires().as_secs()
        };
        assert_eq!(good_for(1_999, 1_801_000), 1_800);
        assert_eq!(good_for(5_000, 5_000), 1);
    }

    #[test]
    fn a_caller_is_told_what_no_client_sends_by_itself() {
        let signed = [("content-type", "text/csv"), ("content-length", "3"), ("x-amz-a", "b")];
        let told = to_be_sent(signed.into_iter());
        let expected = [("Content-Type", "text/csv"), ("x-amz-a", "b")];
        assert_eq!(told, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }
}
