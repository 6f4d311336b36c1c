//! Dead letters (SPEC 6.15): few, and all in one partition, to be looked through.

use super::item::{Item, Row, number, text};
use super::read::Range;
use super::transact::{Condition, Expression};
use super::{Table, keys};
use async_trait::async_trait;
use conveyor_domain::{DeadLetter, LetterId, Timestamp};
use conveyor_store::Result;
use conveyor_store::port::DeadLetterStore;

fn decode(item: &Item) -> Result<DeadLetter> {
    let row = Row(item);
    Ok(DeadLetter {
        id: row.parsed(keys::SK)?,
        body: row.text("bd")?.to_owned(),
        first: Timestamp(row.number("fa")?),
        last: Timestamp(row.number("la")?),
        redrives: row.number("rd")?,
    })
}

#[async_trait]
impl DeadLetterStore for Table {
    async fn keep_letter(&self, letter: DeadLetter) -> Result<()> {
        let text_of =
            "SET bd = :body, la = :last, fa = if_not_exists(fa, :first), rd = if_not_exists(rd, :redrives)";
        let values = vec![
            (":body", text(letter.body)),
            (":last", number(letter.last.0)),
            (":first", number(letter.first.0)),
            (":redrives", number(letter.redrives)),
        ];
        self.update_always(&keys::letter(letter.id), Expression { text: text_of.to_owned(), values }).await
    }

    async fn letter(&self, letter: LetterId) -> Result<Option<DeadLetter>> {
        self.get(&keys::letter(letter)).await?.as_ref().map(decode).transpose()
    }

    async fn letters(&self, after: Option<LetterId>, limit: u32) -> Result<Vec<DeadLetter>> {
        let partition = keys::LETTERS_PARTITION.to_owned();
        let range = match after {
            // Ids are of one length, so this sorts right behind it.
            Some(after) => Range::from(partition, format!("{after}~")),
            None => Range::everything(partition),
        };
        self.readable("dead_letter", &range.by(limit), limit as usize, decode).await
    }

    /// A transaction: whoever takes its own count for another's would count a message that it never sends.
    async fn count_redrive(&self, letter: LetterId, seen: u32) -> Result<bool> {
        let count =
            Expression { text: "SET rd = :next".to_owned(), values: vec![(":next", number(seen + 1))] };
        let unmoved =
            Condition { expression: "rd = :seen".to_owned(), values: vec![(":seen", number(seen))] };
        let write = self.update(&keys::letter(letter), count, Some(unmoved))?;
        Ok(self.transact(vec![write]).await?.is_ok())
    }

    async fn forget_letter(&self, letter: LetterId) -> Result<()> {
        self.delete_all(&[keys::letter(letter).attributes()]).await
    }
}
