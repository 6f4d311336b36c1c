//! `conveyor submit`: a list becomes a job.

use super::args::SubmitArgs;
use super::document::Submitted;
use super::failure::Failure;
use super::http::{Answer, Api};
use super::list::List;
use super::print::{self, Output, clean};
use super::{progress, status};
use serde_json::{Map, Value, json};
use std::process::ExitCode;

pub async fn run(api: &Api, args: SubmitArgs, output: Output) -> Result<ExitCode, Failure> {
    let (inputs, format, delimiter) = (args.inputs.clone(), args.format, args.delimiter);
    let reading = tokio::task::spawn_blocking(move || List::read(&inputs, format, delimiter));
    let mut list = reading.await.map_err(|e| Failure::usage(format!("the list cannot be read: {e}")))??;
    for remark in &list.remarks {
        output.remark(remark);
    }
    let body = body(&args, std::mem::take(&mut list.tasks))?;
    let answer: Answer<Submitted> = api
        .post(api.url(&["jobs"]), Some(&body))
        .await
        .map_err(|e| e.with_places(|index| list.place(index)))?;
    let Submitted { job_id, accepted_tasks } = &answer.document;
    output.remark(&format!("{accepted_tasks} tasks accepted"));
    if !output.json {
        // Alone on its line: `JOB=$(conveyor submit urls.txt)`.
        print::line(&clean(job_id))?;
    }
    if !args.watch {
        if output.json {
            print::line(&answer.text)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let last = progress::watch(api, job_id, output).await?;
    status::show(&last, output)?;
    Ok(progress::exit_code(&last.document))
}

fn body(args: &SubmitArgs, tasks: Vec<Value>) -> Result<Value, Failure> {
    let mut body = json!({ "type": "regular", "status": "closed", "tasks": tasks });
    if let Some(name) = &args.name {
        body["name"] = json!(name);
    }
    if let Some(external_id) = &args.external_id {
        body["external_id"] = json!(external_id);
    }
    if let Some(max_inflight) = args.max_inflight {
        body["max_inflight"] = json!(max_inflight);
    }
    let mut params = Map::new();
    for (key, value) in &args.params {
        if params.insert(key.clone(), json!(value)).is_some() {
            return Err(Failure::usage(format!("--param {key} is given twice")));
        }
    }
    if !params.is_empty() {
        body["zenrows_params"] = Value::Object(params);
    }
    Ok(body)
}
