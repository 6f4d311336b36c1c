//! Upload slots (SPEC 6.9). One row a slot, with a version; parts and claims beside it.

use super::Table;
use super::item::{Draft, Item, Row, json, number, text};
use super::keys::{self, GSI1, GSI1_PK, GSI1_SK, GSI2, GSI2_PK, GSI2_SK};
use super::listing::Wanted;
use super::read::{Filter, Range};
use super::transact::Condition;
use async_trait::async_trait;
use aws_sdk_dynamodb::types::TransactWriteItem;
use conveyor_domain::ingest::Source;
use conveyor_domain::ingest::upload::{Part, UploadDoc};
use conveyor_domain::{CallerId, JobId, Refusal, Staged, Timestamp, Upload, UploadId};
use conveyor_store::port::{Page, UploadStore, UploadsQuery};
use conveyor_store::{Error, Result};
use futures::FutureExt;

#[derive(Clone, Debug)]
pub struct UploadRow {
    upload: Upload,
    version: u64,
    /// Jobs that hold on to it.
    claims: u32,
    doomed: bool,
}

/// Partitions of the second index.
const UNUSED: &str = "upload+unused";
const DOOMED: &str = "upload+doomed";
/// What `st` says of one that nobody uses yet.
const OPEN: &str = "open";

impl UploadRow {
    fn encode(&self) -> Result<Item> {
        let upload = &self.upload;
        let (status, discovery) = match (self.doomed, self.claims) {
            (true, _) => ("doomed", Some(DOOMED)),
            (false, 0) => (OPEN, Some(UNUSED)),
            (false, _) => ("claimed", None),
        };
        let draft = Draft::at(&keys::upload(upload.id))
            .set("v", number(self.version))
            .set("cal", text(upload.caller.to_string()))
            .set("st", text(status))
            .set("claims", number(self.claims))
            .set("ca", number(upload.created.0))
            .set("ex", number(upload.expires.0))
            .set("doc", json(&upload.doc())?)
            .set(GSI1_PK, text(keys::uploads_of(upload.caller)))
            .set(GSI1_SK, text(upload.id.to_string()));
        Ok(match discovery {
            Some(place) => {
                let due = format!("{}#{}", due(upload.expires), upload.id);
                draft.set(GSI2_PK, text(place)).set(GSI2_SK, text(due)).item()
            }
            None => draft.item(),
        })
    }

    fn decode(item: &Item) -> Result<UploadRow> {
        let row = Row(item);
        let doc: UploadDoc = row.json("doc")?;
        let claims: u32 = row.number("claims")?;
        Ok(UploadRow {
            upload: Upload {
                id: id_of(row)?,
                caller: row.parsed("cal")?,
                spec: doc.spec,
                multipart: doc.multipart,
                declared: doc.declared,
                parts_handle: doc.parts_handle,
                staged: doc.staged,
                claimed: claims > 0,
                created: Timestamp(row.number("ca")?),
                expires: Timestamp(row.number("ex")?),
            },
            version: row.number("v")?,
            claims,
            doomed: row.text("st")? == "doomed",
        })
    }

    /// It is doomed, or past its time and nobody's.
    fn may_go(&self, now: Timestamp) -> bool {
        self.doomed || (!self.upload.claimed && self.upload.has_expired(now))
    }

    /// Still there for callers.
    fn is_there(&self, now: Timestamp) -> bool {
        !self.doomed && !self.upload.has_expired(now)
    }
}

fn id_of(row: Row<'_>) -> Result<UploadId> {
    let id = row.text(keys::PK)?.strip_prefix("Upload#").and_then(|id| id.parse().ok());
    id.ok_or_else(|| super::item::corrupt("upload id"))
}

/// A moment as it sorts.
fn due(at: Timestamp) -> String {
    format!("{:015}", at.0.max(0))
}

/// The writes that keep the bytes of a source for a job, as part of the transaction that makes the job.
#[derive(Debug)]
pub struct UploadClaim {
    pub writes: Vec<TransactWriteItem>,
}

impl Table {
    async fn find_upload(&self, upload: UploadId) -> Result<Option<UploadRow>> {
        self.get(&keys::upload(upload)).await?.as_ref().map(UploadRow::decode).transpose()
    }

    pub async fn claim_upload(&self, source: &Source, job: JobId, now: Timestamp) -> Result<UploadClaim> {
        let found = self.find_upload(source.upload).await?.filter(|row| row.is_there(now));
        let mut row = found.ok_or(Error::NotFound)?;
        // Replaced since it was looked at: what the job would pin is about to be deleted.
        if !row.upload.has_staged(&source.staged) {
            return Err(Error::Changed);
        }
        let seen = Condition::version(row.version);
        (row.version, row.claims) = (row.version + 1, row.claims + 1);
        let claim = Draft::at(&keys::claim(source.upload, job)).set("at", number(now.0)).item();
        let writes = vec![self.put(row.encode()?, Some(seen))?, self.put(claim, Some(Condition::absent()))?];
        Ok(UploadClaim { writes })
    }

    /// The writes that let go of an upload, as part of the transaction that removes the job. None if it is not held.
    pub async fn release_upload(&self, upload: UploadId, job: JobId) -> Result<Vec<TransactWriteItem>> {
        let claim = keys::claim(upload, job);
        let (Some(_), Some(mut row)) = (self.get(&claim).await?, self.find_upload(upload).await?) else {
            return Ok(Vec::new());
        };
        let seen = Condition::version(row.version);
        (row.version, row.claims) = (row.version + 1, row.claims.saturating_sub(1));
        Ok(vec![self.put(row.encode()?, Some(seen))?, self.delete(&claim, Some(Condition::present()))?])
    }

    /// One that is there for callers.
    async fn upload_there(&self, upload: UploadId, now: Timestamp) -> Result<UploadRow> {
        let found = self.find_upload(upload).await?.filter(|row| row.is_there(now));
        found.ok_or(Error::NotFound)
    }

    /// Writes a slot that was read and changed, with more rows; false if somebody was in between.
    async fn save_upload(&self, mut row: UploadRow, more: Vec<TransactWriteItem>) -> Result<bool> {
        let seen = Condition::version(row.version);
        row.version += 1;
        // Always a transaction: taking one's own write for another's would delete bytes that are in use.
        let mut writes = vec![self.put(row.encode()?, Some(seen))?];
        writes.extend(more);
        Ok(self.transact(writes).await?.is_ok())
    }

    pub async fn expired_uploads(&self, now: Timestamp, limit: u32) -> Result<Vec<UploadId>> {
        self.latest.learn(now);
        let wanted = limit as usize;
        let doomed = Range::everything(DOOMED.to_owned());
        let unused = Range::up_to(UNUSED.to_owned(), format!("{}~", due(now)));
        let mut expired = Vec::new();
        for range in [doomed, unused] {
            let place = |upload: &UploadId| (upload.to_string(), upload.to_string());
            // The index may be old, and what is found there may be gone, or in use.
            let read = |upload: UploadId| {
                let found = async move {
                    let row = self.find_upload(upload).await?;
                    Ok(row.filter(|row| row.may_go(now)).map(|_| upload))
                };
                (upload, found.boxed())
            };
            let range = range.in_index(GSI2).by(limit);
            let key = |item: &Item| id_of(Row(item));
            expired.extend(self.named("upload", &range, wanted, key, place, read).await?);
        }
        Ok(expired)
    }
}

#[async_trait]
impl UploadStore for Table {
    async fn create_upload(&self, upload: Upload, max: u32) -> Result<()> {
        // By an index that may be a moment old: the limit keeps a caller from piling up slots, it is not a promise to others.
        if max < u32::MAX {
            let unused = Filter {
                expression: "st = :open AND ex > :now",
                values: vec![(":open", text(OPEN)), (":now", number(upload.created.0))],
            };
            let range = Range::everything(keys::uploads_of(upload.caller)).in_index(GSI1).only(unused);
            if self.count(&range, max).await? >= max {
                return Err(Refusal::TooManyUploads.into());
            }
        }
        let row = UploadRow { upload, version: 0, claims: 0, doomed: false };
        // One that is there is the same: its id is random.
        self.put_if(row.encode()?, Condition::absent()).await.map(drop)
    }

    async fn upload(&self, caller: CallerId, upload: UploadId, now: Timestamp) -> Result<Option<Upload>> {
        let found = self.find_upload(upload).await?;
        Ok(found.filter(|row| row.is_there(now) && row.upload.caller == caller).map(|row| row.upload))
    }

    async fn uploads(&self, query: UploadsQuery, now: Timestamp) -> Result<Page<Upload, UploadId>> {
        let UploadsQuery { caller, before, limit, look } = query;
        let high = before.map_or_else(|| "~".to_owned(), |upload| upload.to_string());
        let range = Range::up_to(keys::uploads_of(caller), high).in_index(GSI1);
        let seen = |item: &Item| Ok((Row(item).parsed(GSI1_SK)?, true));
        let load = |upload: UploadId| self.upload(caller, upload, now);
        self.newest(range, Wanted { what: "upload", before, limit, look }, seen, load).await
    }

    async fn put_staged(
        &self,
        upload: UploadId,
        staged: Staged,
        joined: Option<Vec<Part>>,
        now: Timestamp,
    ) -> Result<Option<Staged>> {
        let mut backoff = self.backoff();
        loop {
            let mut row = self.upload_there(upload, now).await?;
            // A part that is put also moves the version of its slot, so none can come between this look and the write.
            if let Some(joined) = &joined
                && self.parts(upload).await? != *joined
            {
                return Err(Error::Conflict("a part was replaced while the parts were joined".to_owned()));
            }
            let replaced = row.upload.stage(staged.clone())?;
            if self.save_upload(row, Vec::new()).await? {
                return Ok(replaced);
            }
            backoff.wait("a change of an upload").await?;
        }
    }

    async fn put_part(&self, upload: UploadId, part: Part, now: Timestamp) -> Result<Option<Staged>> {
        let key = keys::part(upload, part.number);
        let mut backoff = self.backoff();
        loop {
            let row = self.upload_there(upload, now).await?;
            row.upload.takes_parts()?;
            let before: Option<Part> =
                self.get(&key).await?.map(|item| Row(&item).json("doc")).transpose()?;
            let write = self.put(Draft::at(&key).set("doc", json(&part)?).item(), None)?;
            if self.save_upload(row, vec![write]).await? {
                return Ok(before.map(|p| p.staged).filter(|staged| *staged != part.staged));
            }
            backoff.wait("a part of an upload").await?;
        }
    }

    async fn parts(&self, upload: UploadId) -> Result<Vec<Part>> {
        let rows = self.all(&Range::of(keys::upload_partition(upload), keys::PARTS)).await?;
        rows.iter().map(|item| Row(item).json("doc")).collect()
    }

    async fn doom_upload(&self, upload: UploadId, by: Option<CallerId>, now: Timestamp) -> Result<bool> {
        self.latest.learn(now);
        let mut backoff = self.backoff();
        loop {
            let found = self.find_upload(upload).await?;
            let row = match by {
                // Whose it is comes first: that a job was made of it is nobody else's business.
                Some(caller) => {
                    let theirs = found.filter(|row| row.is_there(now) && row.upload.caller == caller);
                    let row = theirs.ok_or(Error::NotFound)?;
                    row.upload.refuse_claimed()?;
                    row
                }
                None => match found.filter(|row| row.may_go(now)) {
                    Some(row) if row.doomed => return Ok(true),
                    Some(row) => row,
                    None => return Ok(false),
                },
            };
            if self.save_upload(UploadRow { doomed: true, ..row }, Vec::new()).await? {
                return Ok(true);
            }
            backoff.wait("the end of an upload").await?;
        }
    }

    async fn forget_upload(&self, upload: UploadId) -> Result<()> {
        if self.find_upload(upload).await?.is_none_or(|row| !row.doomed) {
            return Ok(());
        }
        let mut rows = self.all(&Range::everything(keys::upload_partition(upload))).await?;
        // The slot itself goes last: until then it is found again.
        let slot = keys::upload(upload);
        rows.retain(|item| Row(item).text(keys::SK) != Ok(slot.sk.as_str()));
        self.delete_all(&rows).await?;
        self.delete_all(&[slot.attributes()]).await
    }
}
