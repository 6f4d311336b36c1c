//! Turns a list of URLs, as bytes, into rows. `conveyor submit` decodes its files with it, and the ingest role will
//! decode staged lists with it.
//!
//! It must not know where the bytes come from (a file, standard input, an object that was pinned), nor what becomes of a
//! row: whether a URL is acceptable is decided by `conveyor_domain::task_input`, and storing it is a port's business.

pub mod decode;
