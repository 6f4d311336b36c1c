//! Records from a reader.

use crate::decoder::{Decoder, Step};
use crate::error::ListError;
use crate::record::Record;
use crate::sniff::{BOM, SNIFF_BYTES};
use crate::source::{BUFFER_BYTES, Source};
use conveyor_domain::ListSpec;
use conveyor_domain::ingest::list::{Layout, Position};
use tokio::io::AsyncRead;

const _: () = assert!(SNIFF_BYTES <= BUFFER_BYTES, "the head is read into the buffer");

/// The records of a list, in order, from its expanded bytes.
#[derive(Debug)]
pub struct ListReader<R> {
    source: Source<R>,
    decoder: Decoder,
    layout: Layout,
    /// Nothing was read yet, and a byte order mark may come first.
    at_start: bool,
    failed: Option<ListError>,
}

impl<R: AsyncRead + Unpin> ListReader<R> {
    /// Opens a list at its beginning, and reads as much as it takes to know its layout.
    pub async fn open(reader: R, spec: &ListSpec) -> Result<ListReader<R>, ListError> {
        let mut source = Source::new(reader);
        let offset = skip_bom(&mut source).await?;
        if let ListSpec::Csv { csv: None } = spec {
            source.fill_head(SNIFF_BYTES).await?;
        }
        // More may have come at once; what is told from the head must not depend on that.
        let head_len = source.bytes().len().min(SNIFF_BYTES - offset as usize);
        let at = Position { offset, ..Position::default() };
        let mut decoder = Decoder::open(spec, &source.bytes()[..head_len], at)?;
        loop {
            if let Some(layout) = decoder.layout() {
                return Ok(ListReader { source, decoder, layout, at_start: false, failed: None });
            }
            if let Step::Hungry = step(&mut decoder, &mut source)? {
                source.fill().await?;
            }
        }
    }

    /// Goes on in the middle of a list, at a position that a reader of this layout has given. `reader` stands there, at
    /// [`Position::offset`] of the expanded bytes.
    pub fn resume(reader: R, layout: Layout, at: Position) -> ListReader<R> {
        let decoder = Decoder::resume(&layout, at);
        ListReader { source: Source::new(reader), decoder, layout, at_start: at.offset == 0, failed: None }
    }

    /// What the list turned out to be.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Behind the last record that [`ListReader::next`] gave, and after it gave `None` the end of the list. A reader that
    /// resumes there gives exactly the rest.
    pub fn position(&self) -> Position {
        self.decoder.position()
    }

    /// The next record; `None` at the end of the list and only there. Can be dropped and called again.
    ///
    /// After an error there is nothing but that error: what follows a failed read or an endless line is not known to be
    /// the list.
    pub async fn next(&mut self) -> Result<Option<Record>, ListError> {
        if let Some(error) = &self.failed {
            return Err(error.repeat());
        }
        let next = self.try_next().await;
        if let Err(error) = &next {
            self.failed = Some(error.repeat());
        }
        next
    }

    async fn try_next(&mut self) -> Result<Option<Record>, ListError> {
        if self.at_start {
            let offset = skip_bom(&mut self.source).await?;
            self.decoder = Decoder::resume(&self.layout, Position { offset, ..self.decoder.position() });
            self.at_start = false;
        }
        loop {
            match step(&mut self.decoder, &mut self.source)? {
                Step::Record(record) => return Ok(Some(record)),
                Step::Hungry => self.source.fill().await?,
                Step::Opened => {}
                Step::End => return Ok(None),
            }
        }
    }
}

/// Feeds the decoder what was read.
fn step<R: AsyncRead + Unpin>(decoder: &mut Decoder, source: &mut Source<R>) -> Result<Step, ListError> {
    let mut input = source.bytes();
    let step = decoder.step(&mut input, source.ended());
    let left = input.len();
    source.leave(left);
    step
}

/// Skips the byte order mark, and says how many bytes it has.
async fn skip_bom<R: AsyncRead + Unpin>(source: &mut Source<R>) -> Result<u64, ListError> {
    source.fill_head(BOM.len()).await?;
    let skipped = if source.bytes().starts_with(BOM) { BOM.len() } else { 0 };
    source.leave(source.bytes().len() - skipped);
    Ok(skipped as u64)
}
