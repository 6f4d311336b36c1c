use super::{BlobKey, Result, Stored};
use async_trait::async_trait;
use conveyor_domain::Timestamp;
use conveyor_domain::ingest::upload::{Declared, Part};
use std::collections::BTreeMap;

/// How long a URL is good for.
#[derive(Clone, Copy, Debug)]
pub struct Validity {
    pub from: Timestamp,
    pub until: Timestamp,
}

/// A PUT that needs no key, and the headers without which it is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedPut {
    pub url: String,
    pub headers: BTreeMap<String, String>,
}

/// An object that somebody else may have written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub stored: Stored,
    /// In hex, if it was sent with one that was checked.
    pub sha256: Option<String>,
}

/// What became of parts that were to be joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joined {
    Done(Stored),
    /// They are not the parts that are there any more.
    Replaced,
    /// There is nothing to join: somebody has joined them, or they were removed.
    Gone,
}

/// Objects that callers write and read by themselves, with URLs that are signed for one thing each (SPEC 5.6). A key that
/// such a URL was made for can be written until the URL expires, whatever was done with the object meanwhile.
#[async_trait]
pub trait DirectAccess: Send + Sync {
    /// A URL that takes an object of this type and, where that was declared, of this size and digest.
    async fn put_url(
        &self,
        key: &BlobKey,
        content_type: &'static str,
        declared: &Declared,
        validity: Validity,
    ) -> Result<SignedPut>;

    /// A URL that reads an object, as this type: to be looked at, or to be saved under a name.
    async fn get_url(
        &self,
        key: &BlobKey,
        content_type: &'static str,
        file_name: Option<&str>,
        validity: Validity,
    ) -> Result<String>;

    /// What is there now, if anything is.
    async fn find(&self, key: &BlobKey) -> Result<Option<Found>>;

    /// Copies these bytes and no others: `Changed` if they are not there any more.
    async fn copy(&self, from: &BlobKey, pinned: &Stored, to: &BlobKey) -> Result<Stored>;

    /// Begins an object that is sent in parts, and returns what they are known by.
    async fn begin_parts(&self, key: &BlobKey, content_type: &'static str) -> Result<String>;

    /// A URL that takes a part, and where its size is known, of this size alone.
    async fn part_url(
        &self,
        key: &BlobKey,
        handle: &str,
        number: u32,
        size: Option<u64>,
        validity: Validity,
    ) -> Result<String>;

    /// The parts that are there, by number; `None` if they were joined or removed.
    async fn parts(&self, key: &BlobKey, handle: &str) -> Result<Option<Vec<Part>>>;

    /// Makes the object of its parts. From then on none of their URLs can change it.
    async fn join_parts(&self, key: &BlobKey, handle: &str, parts: &[Part]) -> Result<Joined>;
}
