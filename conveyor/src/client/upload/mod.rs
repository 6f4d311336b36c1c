//! Staging a list: its bytes go into a slot as they are, and a job is made of the slot (SPEC 6.9).

mod meter;
mod parts;
mod plan;
mod slot;
mod whole;

use super::args::SubmitArgs;
use super::failure::Failure;
use super::http::{Answer, Api, Signed};
use super::list::{Bytes, Input, ListFile, Single, format_name, read_head, to_wire};
use super::print::Output;
use super::progress::{self, ctrl_c};
use conveyor_domain::limits::MIB;
use conveyor_domain::{Compression, ListFault, limits};
use indicatif::{HumanBytes, ProgressBar};
use plan::Plan;
use serde_json::{Value, json};
use slot::{Multipart, Part, Slot, Upload};
use std::io;
use whole::Whole;

/// Larger files are sent in parts, so that what breaks off can be resumed.
const WHOLE_MAX_BYTES: u64 = 64 * MIB as u64;
/// What can be read only once is cut before a server says what it takes: S3 takes no smaller ones.
const STREAMED_PART_MIN_BYTES: u64 = 5 * MIB as u64;

const BAR: &str = "uploading {bar:24} {bytes}/{total_bytes} {binary_bytes_per_sec}, eta {eta}";
const BAR_OF_UNKNOWN: &str = "uploading {bytes} {binary_bytes_per_sec}";

/// A slot, and what is on its way into it.
#[derive(Debug)]
pub struct Staging<'a> {
    api: &'a Api,
    pub upload: String,
    /// As the user calls the list.
    argument: &'a str,
}

/// Uploads a list.
pub async fn stage<'a>(
    api: &'a Api,
    list: Single,
    args: &'a SubmitArgs,
    output: Output,
) -> Result<Staging<'a>, Failure> {
    output.remark(&description(&list));
    let name = list.name;
    let bytes = begun(list.bytes, args).await.map_err(|e| Failure::unreadable(&name, e.into()))?;
    let (in_parts, size) = match &bytes {
        Bytes::File(file) => (file.size > args.part_bytes.unwrap_or(WHOLE_MAX_BYTES), Some(file.size)),
        Bytes::Memory(bytes) => (false, Some(bytes.len() as u64)),
        Bytes::Stream(..) => (true, None),
    };
    let mut body = to_wire(&list.spec);
    if let Some(size) = size {
        body.insert("size_bytes".to_owned(), json!(size));
    }
    if in_parts {
        body.insert("multipart".to_owned(), json!(true));
        let begun = if let Bytes::Stream(first, _) = &bytes { Some(first.len() as u64) } else { None };
        let part_bytes = begun.or(args.part_bytes).unwrap_or(limits::PART_BYTES);
        body.insert("part_bytes".to_owned(), json!(part_bytes));
    }
    // Sent again, it makes a slot too many, which expires.
    let answer: Answer<Slot> = api.post_again(api.url(&["job_inputs"]), Some(&Value::Object(body))).await?;
    let slot = answer.document;
    let staging = Staging { api, upload: slot.file_input_id.clone(), argument: &args.inputs[0] };
    let bar = bar(output, size);
    match (bytes, slot.upload) {
        (Bytes::File(file), None) if in_parts => {
            let plan = Plan::new(file.size, part_bytes(slot.multipart, args));
            staging.send_parts(&file, plan, &[], &bar).await?;
        }
        (Bytes::Stream(first, rest), None) => {
            let sent = interruptible(parts::send_stream(&staging, &name, first, rest, &bar)).await;
            bar.finish_and_clear();
            // Whatever comes next cannot be read a second time: there is nothing to go on with.
            sent?;
        }
        (Bytes::File(file), Some(to)) => staging.send_whole(&to, &name, Whole::File(file), &bar).await?,
        (Bytes::Memory(bytes), Some(to)) => {
            staging.send_whole(&to, &name, Whole::Memory(bytes), &bar).await?;
        }
        (_, None) | (Bytes::Stream(..), Some(_)) => {
            return Err(Failure::not_understood("the slot does not say where the list goes"));
        }
    }
    Ok(staging)
}

/// Reads enough of what can be read only once to know whether it is a part, or all of it: signed URLs take nothing whose
/// length is not known, and a part that breaks off can be sent again.
async fn begun(bytes: Bytes, args: &SubmitArgs) -> io::Result<Bytes> {
    let Bytes::Stream(mut first, mut rest) = bytes else { return Ok(bytes) };
    let part_bytes = args.part_bytes.unwrap_or(limits::PART_BYTES).max(STREAMED_PART_MIN_BYTES);
    let part_bytes = usize::try_from(part_bytes).unwrap_or(usize::MAX);
    let missing = part_bytes.saturating_sub(first.len());
    first.extend(read_head(&mut rest, missing).await?);
    Ok(if first.len() < part_bytes { Bytes::Memory(first) } else { Bytes::Stream(first, rest) })
}

/// How large the parts of a slot are.
fn part_bytes(multipart: Option<Multipart>, args: &SubmitArgs) -> u64 {
    multipart.and_then(|slot| slot.part_bytes).or(args.part_bytes).unwrap_or(limits::PART_BYTES)
}

/// Goes on with an upload that broke off. One that is complete needs nothing more.
pub async fn resume<'a>(
    api: &'a Api,
    upload: &str,
    args: &'a SubmitArgs,
    output: Output,
) -> Result<Staging<'a>, Failure> {
    let answer: Answer<Upload> = api.get(api.url(&["job_inputs", upload])).await?;
    let Upload { file_input_id, status, size_bytes, upload, multipart, parts } = answer.document;
    let staging = Staging { api, upload: file_input_id, argument: &args.inputs[0] };
    match status.as_str() {
        "uploaded" => {
            output.remark("the list is uploaded already");
            return Ok(staging);
        }
        "claimed" => return Err(Failure::not_resumable("a job was already made of it")),
        _ => {}
    }
    let file = match Input::of(staging.argument) {
        Input::File(path) => ListFile::open(path).await?,
        Input::Stdin | Input::Url(_) => None,
    };
    let Some(file) = file else {
        return Err(Failure::usage("--resume needs the file that was being uploaded"));
    };
    if let Some(size) = size_bytes.filter(|size| *size != file.size) {
        let detail = format!("it is for {size} bytes, and {} has {}", staging.argument, file.size);
        return Err(Failure::not_resumable(detail).with_hint("submit the file anew, without --resume"));
    }
    let bar = bar(output, Some(file.size));
    if let Some(to) = upload {
        staging.send_whole(&to, staging.argument, Whole::File(file), &bar).await?;
        return Ok(staging);
    }
    let plan = Plan::new(file.size, part_bytes(multipart, args));
    if parts.iter().any(|part| u64::from(part.number) > plan.count()) {
        return Err(Failure::not_resumable("parts of another size are there")
            .with_hint("submit the file anew, without --resume"));
    }
    staging.send_parts(&file, plan, &parts, &bar).await?;
    Ok(staging)
}

impl Staging<'_> {
    async fn send_parts(
        &self,
        file: &ListFile,
        plan: Plan,
        there: &[Part],
        bar: &ProgressBar,
    ) -> Result<(), Failure> {
        let sent = interruptible(parts::send(self, file, plan, there, bar)).await;
        bar.finish_and_clear();
        sent.map_err(|failure| self.explained(failure))
    }

    async fn send_whole(
        &self,
        to: &Signed,
        name: &str,
        whole: Whole,
        bar: &ProgressBar,
    ) -> Result<(), Failure> {
        let is_file = matches!(Input::of(self.argument), Input::File(_));
        let sent = interruptible(whole::send(self.api, to, name, whole, bar)).await;
        bar.finish_and_clear();
        sent.map_err(|failure| if is_file { self.explained(failure) } else { failure })
    }

    /// A failure that leaves the upload behind says what can still be done with it.
    pub fn explained(&self, failure: Failure) -> Failure {
        // The same list would be refused for the same reason, and a file that has changed is another list.
        if failure.has_code(Failure::FILE_CHANGED)
            || ListFault::ALL.iter().any(|fault| failure.has_code(fault.as_str()))
        {
            return failure;
        }
        let command = format!("conveyor submit {} --resume {}", shell_word(self.argument), self.upload);
        failure.with_upload(
            &self.upload,
            format!("`{command}`, with the other flags as they were, goes on from here"),
        )
    }
}

async fn interruptible<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::select! {
        biased;
        () = ctrl_c() => Err(Failure::upload_interrupted()),
        done = work => done,
    }
}

fn bar(output: Output, size: Option<u64>) -> ProgressBar {
    let bar = progress::bar(output, if size.is_some() { BAR } else { BAR_OF_UNKNOWN });
    bar.set_length(size.unwrap_or_default());
    bar
}

fn description(list: &Single) -> String {
    let size = match &list.bytes {
        Bytes::File(file) => format!("{}, ", HumanBytes(file.size)),
        Bytes::Memory(bytes) => format!("{}, ", HumanBytes(bytes.len() as u64)),
        Bytes::Stream(..) => String::new(),
    };
    let compressed = match list.compression {
        Compression::None => String::new(),
        compression => format!(" in {}", compression.as_str()),
    };
    format!("{}: {size}read as {}{compressed}", list.name, format_name(&list.spec))
}

/// A word as a shell takes it.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/+:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted() {
        assert_eq!(shell_word("lists/urls-1.csv"), "lists/urls-1.csv");
        assert_eq!(shell_word("my list's.csv"), r"'my list'\''s.csv'");
        assert_eq!(shell_word(""), "''");
    }
}
