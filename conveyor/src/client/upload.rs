//! Staging a list: its bytes go into a slot as they are, and a job is made of the slot (SPEC 6.9).

use super::args::SubmitArgs;
use super::failure::Failure;
use super::list::{Input, Single, create_input, format_name, open};
use super::print::Output;
use super::progress::{self, ctrl_c};
use conveyor_client::{Client, ListFile, Moved, Source, Upload};
use conveyor_domain::{Compression, ListFault, UploadId, UploadStatus};
use indicatif::{HumanBytes, ProgressBar};

const BAR: &str = "uploading {bar:24} {bytes}/{total_bytes} {binary_bytes_per_sec}, eta {eta}";
const BAR_OF_UNKNOWN: &str = "uploading {bytes} {binary_bytes_per_sec}";

/// A list that is uploaded.
#[derive(Debug)]
pub struct Staged<'a> {
    pub upload: UploadId,
    /// As the user calls the list.
    argument: &'a str,
}

/// Uploads a list.
pub async fn stage<'a>(
    api: &Client,
    list: Single,
    args: &'a SubmitArgs,
    output: Output,
) -> Result<Staged<'a>, Failure> {
    output.remark(&description(&list));
    let size = match &list.bytes {
        Source::File(file) => Some(file.size),
        Source::Memory(bytes) => Some(bytes.len() as u64),
        Source::Reader(..) => None,
    };
    let upload = api.begin_upload(create_input(&list.spec), list.bytes, args.part_bytes).await;
    // What can be read only once cannot be read a second time: there is nothing to go on with.
    let is_file = matches!(Input::of(&args.inputs[0]), Input::File(_)) && size.is_some();
    send(upload?.named(list.name), args, size, is_file, output).await
}

/// Resumes an interrupted upload. A complete one needs nothing more.
pub async fn resume<'a>(
    api: &Client,
    upload: &str,
    args: &'a SubmitArgs,
    output: Output,
) -> Result<Staged<'a>, Failure> {
    let argument = &args.inputs[0];
    let slot = api.input(upload).await?.document;
    if slot.status == UploadStatus::Uploaded {
        output.remark("the list is uploaded already");
        return Ok(Staged { upload: slot.file_input_id, argument });
    }
    let file = match Input::of(argument) {
        Input::File(path) => {
            // Opened as well, because that says best what is wrong.
            open(path).await?;
            ListFile::of(path).await.map_err(|e| Failure::unreadable(path, e.into()))?
        }
        Input::Stdin | Input::Url(_) => None,
    };
    let Some(file) = file else {
        return Err(Failure::usage("--resume needs the file that was being uploaded"));
    };
    let size = Some(file.size);
    send(api.resume_upload(slot, file, args.part_bytes)?, args, size, true, output).await
}

async fn send<'a>(
    upload: Upload,
    args: &'a SubmitArgs,
    size: Option<u64>,
    can_resume: bool,
    output: Output,
) -> Result<Staged<'a>, Failure> {
    let bar = bar(output, size);
    let staged = Staged { upload: upload.id(), argument: &args.inputs[0] };
    let shown = bar.clone();
    let upload = upload.on_progress(move |moved| match moved {
        Moved::Sent(bytes) => shown.inc(bytes),
        Moved::Lost(bytes) => shown.dec(bytes),
        Moved::AlreadyThere(bytes) => {
            shown.inc(bytes);
            // It took no time, and says nothing about the speed.
            shown.reset_eta();
        }
    });
    let sent = tokio::select! {
        biased;
        () = ctrl_c() => Err(Failure::upload_interrupted()),
        sent = upload.send() => sent.map_err(Failure::from),
    };
    bar.finish_and_clear();
    match sent {
        Ok(_) => Ok(staged),
        Err(failure) if can_resume => Err(staged.explained(failure)),
        Err(failure) => Err(failure),
    }
}

impl Staged<'_> {
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
            &self.upload.to_string(),
            format!("`{command}`, with the other flags as they were, goes on from here"),
        )
    }
}

fn bar(output: Output, size: Option<u64>) -> ProgressBar {
    let bar = progress::bar(output, if size.is_some() { BAR } else { BAR_OF_UNKNOWN });
    bar.set_length(size.unwrap_or_default());
    bar
}

fn description(list: &Single) -> String {
    let size = match &list.bytes {
        Source::File(file) => format!("{}, ", HumanBytes(file.size)),
        Source::Memory(bytes) => format!("{}, ", HumanBytes(bytes.len() as u64)),
        Source::Reader(..) => String::new(),
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
