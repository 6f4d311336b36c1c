use super::*;
use crate::RunId;
use proptest::prelude::*;

fn labels() -> impl Strategy<Value = Label> {
    let run = any::<[u8; 16]>().prop_map(RunId::from_bytes);
    let format = (0..Format::ALL.len()).prop_map(|n| Format::ALL[n]);
    (run, any::<u32>(), any::<u32>(), any::<u16>(), format, any::<Option<u32>>()).prop_map(
        |(run, index, attempt, http_status, format, crc32)| Label {
            task: TaskId::of(run, index),
            attempt,
            http_status,
            format,
            crc32,
        },
    )
}

/// Bodies one behind the other, as a worker packs them.
fn packed() -> impl Strategy<Value = (Vec<IndexEntry>, Vec<u8>)> {
    let body = prop::collection::vec(any::<u8>(), 0..40);
    prop::collection::vec((labels(), body), 1..20).prop_map(|bodies| {
        let (mut entries, mut object) = (Vec::new(), Vec::new());
        for (label, body) in bodies {
            let (offset, length) = (object.len() as u64, body.len() as u64);
            entries.push(IndexEntry { label, offset, length });
            object.extend_from_slice(&body);
        }
        (entries, object)
    })
}

/// As whoever has only the object reads it.
fn read(object: &[u8]) -> Result<Vec<IndexEntry>, NotAnIndex> {
    let trailer = &object[object.len().saturating_sub(TRAILER_BYTES)..];
    let begin = entries_begin(object.len() as u64, trailer)?;
    decode(begin, &object[usize::try_from(begin).map_err(|_| NotAnIndex)?..])
}

proptest! {
    #[test]
    fn an_object_says_whose_bodies_it_holds((entries, mut object) in packed()) {
        let bodies = object.len();
        object.extend_from_slice(&encode(&entries));
        prop_assert_eq!(object.len(), bodies + bytes_of(entries.len()));
        prop_assert_eq!(read(&object).unwrap(), entries);
    }

    #[test]
    fn any_bytes_are_read_or_refused(object in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&object);
    }

    #[test]
    fn any_bytes_behind_a_mark_are_read_or_refused(
        mut object in prop::collection::vec(any::<u8>(), 0..200), length in 0_u32..300, checked: bool,
    ) {
        object.extend_from_slice(&length.to_be_bytes());
        object.extend_from_slice(if checked { &MARK } else { &MARK_UNCHECKED });
        let _ = read(&object);
    }

    #[test]
    fn an_index_of_which_a_byte_was_flipped_is_none((entries, mut object) in packed(), at: prop::sample::Index) {
        let begin = object.len();
        object.extend_from_slice(&encode(&entries));
        let at = begin + at.index(object.len() - begin);
        object[at] ^= 0x20;
        prop_assert_eq!(read(&object), Err(NotAnIndex));
    }

    #[test]
    fn an_index_that_does_not_cover_its_object_is_none((entries, object) in packed(), cut in 1_usize..5) {
        // Bytes that are nobody's, in front or behind.
        let more = [vec![0; cut], object.clone(), encode(&entries)].concat();
        prop_assert_eq!(read(&more), Err(NotAnIndex));
        let more = [object, vec![0; cut], encode(&entries)].concat();
        prop_assert_eq!(read(&more), Err(NotAnIndex));
    }

    #[test]
    fn a_name_says_what_an_entry_says(label in labels()) {
        prop_assert_eq!(label.to_string().parse::<Label>().unwrap(), label);
    }

    #[test]
    fn any_name_is_read_or_refused(text in "(00000007875016fb84338c37f020c1a9.2.200.html)?[0-9a-fA-F.+htmljson]{0,60}") {
        if let Ok(label) = text.parse::<Label>() {
            prop_assert_eq!(label.to_string(), text);
        }
    }
}

#[test]
fn stored_means_frozen() {
    let run: RunId = "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
    let of = |crc32| Label {
        task: TaskId::of(run, 7),
        attempt: 2,
        http_status: 200,
        format: Format::Markdown,
        crc32,
    };
    let label = of(Some(0xcbf4_3926));
    assert_eq!(label.to_string(), "00000007875016fb84338c37f020c1a9.2.200.markdown.cbf43926");
    let entry = |label| IndexEntry { label, offset: 0, length: 258 };
    let bytes = encode(&[entry(label)]);
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    let (task, rest) = hex.split_at(32);
    assert_eq!(task, "00000007875016fb84338c37f020c1a9");
    assert_eq!(
        rest,
        "000000020000000000000000000000000000010200c80301cbf4392669eb8324000000304356524944583032"
    );

    // What earlier versions wrote.
    let unchecked = of(None);
    assert_eq!("00000007875016fb84338c37f020c1a9.2.200.markdown".parse(), Ok(unchecked));
    let mut object = vec![0; 258];
    object.extend_from_slice(&TaskId::of(run, 7).to_bytes());
    object.extend_from_slice(b"\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x02\0\xc8\x03\0\0\0\x27CVRIDX01");
    assert_eq!(read(&object), Ok(vec![entry(unchecked)]));
}

#[test]
fn an_object_of_an_earlier_version_has_no_index() {
    assert_eq!(read(b"<html>two bodies</html><html>of an earlier version</html>"), Err(NotAnIndex));
    assert_eq!(read(b""), Err(NotAnIndex));
}
