/// Part of a list, which is read with a budget of rows to look at. It may be short, or empty, though more follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, Id> {
    pub rows: Vec<T>,
    /// Where the scan stopped: the last row that it looked at, whether or not that is in the page. `None` at the end.
    pub next: Option<Id>,
}
