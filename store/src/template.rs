//! What runs of a scheduled job are made of (SPEC 6.20), for every role that begins one.

use crate::port::{Result, Store};
use conveyor_domain::Job;
use conveyor_domain::job::run::Expected;
use conveyor_domain::schedule::Template;

/// How many tasks the next run of a scheduled job will have; `None` if nobody has counted its list.
pub async fn expected_tasks(store: &dyn Store, job: &Job) -> Result<Option<Expected>> {
    let Some(schedule) = &job.spec.schedule else { return Ok(None) };
    match schedule.template() {
        Template::List(source) => Ok(source.expected(&job.spec.params)),
        Template::Rows(run) => {
            let template = store.run(job.id, run).await?;
            Ok(template.map(|view| Expected { tasks: view.run.total, exact: true }))
        }
    }
}
