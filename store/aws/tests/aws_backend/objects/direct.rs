//! What callers do by themselves, with URLs.

use crate::objects::streams::bytes;
use crate::objects::world::{World, key};
use bytes::Bytes;
use conveyor_domain::Timestamp;
use conveyor_domain::ingest::upload::{Declared, Part};
use conveyor_domain::limits::MIB;
use conveyor_store::port::{DirectAccess, Found, Joined, SignedPut, Stored, Validity};
use conveyor_store::{Blobs, Error};
use reqwest::StatusCode;
use sha2::{Digest, Sha256};
use std::time::{SystemTime, UNIX_EPOCH};

crate::objects::on_each_server!(
    a_url_takes_one_type,
    a_url_takes_what_was_declared,
    a_url_is_for_one_key_for_a_while,
    what_is_copied_stays_as_it_is,
    parts_are_sent_by_url_and_joined,
    a_part_has_the_size_that_was_signed,
    parts_that_were_replaced_are_not_joined,
    a_url_reads_an_object_as_its_type,
);

fn good_for(seconds: i64) -> Validity {
    #[expect(
        clippy::disallowed_methods,
        reason = "the server has a clock of its own, and it is the real one"
    )]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let from = Timestamp(i64::try_from(now.as_millis()).unwrap());
    Validity { from, until: Timestamp(from.0 + seconds * 1_000) }
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

fn http() -> reqwest::Client {
    conveyor_outbound::client_builder().build().unwrap()
}

async fn put(to: &SignedPut, content_type: Option<&str>, body: Bytes) -> StatusCode {
    let mut request = http().put(&to.url).body(body);
    for (name, value) in &to.headers {
        if name != "Content-Type" {
            request = request.header(name, value);
        }
    }
    if let Some(content_type) = content_type {
        request = request.header("Content-Type", content_type);
    }
    request.send().await.unwrap().status()
}

async fn put_part(url: &str, body: Bytes) -> StatusCode {
    http().put(url).body(body).send().await.unwrap().status()
}

async fn a_url_takes_one_type(world: World) {
    let sent = key("uploads/1/sent");
    assert_eq!(world.objects.find(&sent).await, Ok(None));
    let to = world.objects.put_url(&sent, "text/csv", &Declared::default(), good_for(60)).await.unwrap();
    assert_eq!(to.headers, [("Content-Type".to_owned(), "text/csv".to_owned())].into());
    for wrong in [Some("text/plain"), None] {
        assert_eq!(put(&to, wrong, Bytes::from_static(b"url\n")).await, 403, "{wrong:?}");
    }
    assert_eq!(world.objects.find(&sent).await, Ok(None));
    assert_eq!(put(&to, Some("text/csv"), Bytes::from_static(b"url\n")).await, 200);
    let Found { stored, sha256: _ } = world.objects.find(&sent).await.unwrap().unwrap();
    assert_eq!(stored.size, 4);
    assert_eq!(put(&to, Some("text/csv"), Bytes::from_static(b"another\n")).await, 200);
    assert_eq!(world.objects.find(&sent).await.unwrap().unwrap().stored.size, 8);
}

async fn a_url_takes_what_was_declared(world: World) {
    let (right, other, longer) =
        (Bytes::from_static(b"right"), Bytes::from_static(b"wrong"), Bytes::from_static(b"right "));
    let declared = Declared { size: Some(5), sha256: Some(hex(&right)), part_bytes: None };
    let sent = key("uploads/1/sent");
    let to = world.objects.put_url(&sent, "text/plain", &declared, good_for(60)).await.unwrap();
    for wrong in [longer, other] {
        let status = put(&to, Some("text/plain"), wrong).await;
        assert!(status.is_client_error(), "{status}");
    }
    assert_eq!(world.objects.find(&sent).await, Ok(None));
    assert_eq!(put(&to, Some("text/plain"), right.clone()).await, 200);
    let found = world.objects.find(&sent).await.unwrap().unwrap();
    assert_eq!((found.stored.size, found.sha256), (5, Some(hex(&right))));
}

async fn a_url_is_for_one_key_for_a_while(world: World) {
    let declared = Declared::default();
    let to =
        world.objects.put_url(&key("uploads/1/sent"), "text/plain", &declared, good_for(60)).await.unwrap();
    let edited = SignedPut { url: to.url.replace("uploads/1/sent", "uploads/2/sent"), ..to };
    assert_eq!(put(&edited, Some("text/plain"), Bytes::from_static(b"x")).await, 403);
    let Validity { from, .. } = good_for(0);
    let past = Validity { from: Timestamp(from.0 - 60_000), until: Timestamp(from.0 - 30_000) };
    let expired = world.objects.put_url(&key("uploads/1/sent"), "text/plain", &declared, past).await.unwrap();
    assert_eq!(put(&expired, Some("text/plain"), Bytes::from_static(b"x")).await, 403);
    assert_eq!(world.keys().await.len(), 0);
}

async fn what_is_copied_stays_as_it_is(world: World) {
    let (sent, copy) = (key("uploads/1/sent"), key("uploads/1/copy"));
    world.objects.put(&sent, Bytes::from_static(b"one")).await.unwrap();
    let found = world.objects.find(&sent).await.unwrap().unwrap().stored;
    let copied = world.objects.copy(&sent, &found, &copy).await.unwrap();
    assert_eq!(copied.size, 3);
    world.objects.put(&sent, Bytes::from_static(b"two")).await.unwrap();
    assert_eq!(world.objects.copy(&sent, &found, &key("uploads/1/late")).await, Err(Error::Changed));
    world.objects.delete(&sent).await.unwrap();
    assert_eq!(world.objects.copy(&sent, &found, &key("uploads/1/late")).await, Err(Error::Changed));
    assert_eq!(world.keys().await, ["uploads/1/copy"]);
    let stream = world.objects.read_pinned(&copy, &copied.etag, 0).await.unwrap();
    let read: Vec<Bytes> = futures::TryStreamExt::try_collect(stream).await.unwrap();
    assert_eq!(read.concat(), b"one");
}

async fn parts_are_sent_by_url_and_joined(world: World) {
    let sent = key("uploads/1/sent");
    let (one, two) = (bytes(5 * MIB), bytes(9));
    let handle = world.objects.begin_parts(&sent, "text/csv").await.unwrap();
    assert_eq!(world.objects.parts(&sent, &handle).await, Ok(Some(vec![])));
    let mut urls = Vec::new();
    for (number, body) in [(2, bytes(3)), (1, one.clone()), (2, two.clone())] {
        let size = Some(body.len() as u64);
        let url = world.objects.part_url(&sent, &handle, number, size, good_for(60)).await.unwrap();
        assert_eq!(put_part(&url, body).await, 200);
        urls.push(url);
    }
    let edited = urls[0].replace("partNumber=2", "partNumber=3");
    assert_ne!(edited, urls[0]);
    assert_eq!(put_part(&edited, bytes(3)).await, 403);
    let parts = world.objects.parts(&sent, &handle).await.unwrap().unwrap();
    let sizes: Vec<(u32, u64)> = parts.iter().map(|part| (part.number, part.staged.size)).collect();
    assert_eq!(sizes, [(1, 5 * MIB as u64), (2, 9)], "the later of two counts");
    assert_eq!(world.objects.find(&sent).await, Ok(None));

    let Joined::Done(Stored { size, etag }) = world.objects.join_parts(&sent, &handle, &parts).await.unwrap()
    else {
        panic!("they are all there");
    };
    assert_eq!(size, 5 * MIB as u64 + 9);
    let found = world.objects.find(&sent).await.unwrap().unwrap().stored;
    assert_eq!(found, Stored { size, etag: etag.clone() });
    assert_eq!(world.objects.parts(&sent, &handle).await, Ok(None));
    assert_eq!(put_part(&urls[0], bytes(3)).await, 404, "from now on nothing changes it");
    let again = world.objects.join_parts(&sent, &handle, &parts).await.unwrap();
    assert!(
        matches!(&again, Joined::Gone) || matches!(&again, Joined::Done(same) if same.etag == etag),
        "{again:?}"
    );
    let all = world.objects.get(&sent, 0, size).await.unwrap();
    assert!(all == [&one[..], &two].concat());
}

async fn a_part_has_the_size_that_was_signed(world: World) {
    let sent = key("uploads/1/sent");
    let handle = world.objects.begin_parts(&sent, "text/csv").await.unwrap();
    let url = world.objects.part_url(&sent, &handle, 1, Some(5), good_for(60)).await.unwrap();
    for wrong in [0, 4, 6, MIB] {
        assert_eq!(put_part(&url, bytes(wrong)).await, 403, "{wrong}");
    }
    assert_eq!(world.objects.parts(&sent, &handle).await, Ok(Some(vec![])));
    assert_eq!(put_part(&url, bytes(5)).await, 200);
    let any = world.objects.part_url(&sent, &handle, 1, None, good_for(60)).await.unwrap();
    assert_eq!(put_part(&any, bytes(6)).await, 200, "of a slot of an earlier version");
}

async fn parts_that_were_replaced_are_not_joined(world: World) {
    let sent = key("uploads/1/sent");
    let handle = world.objects.begin_parts(&sent, "text/csv").await.unwrap();
    let url = world.objects.part_url(&sent, &handle, 1, None, good_for(60)).await.unwrap();
    assert_eq!(put_part(&url, bytes(3)).await, 200);
    let before: Vec<Part> = world.objects.parts(&sent, &handle).await.unwrap().unwrap();
    assert_eq!(put_part(&url, bytes(4)).await, 200);
    assert_eq!(world.objects.join_parts(&sent, &handle, &before).await, Ok(Joined::Replaced));
    world.objects.delete_under(&key("uploads/1")).await.unwrap();
    assert_eq!(world.objects.parts(&sent, &handle).await, Ok(None));
    assert_eq!(world.objects.join_parts(&sent, &handle, &before).await, Ok(Joined::Gone));
    assert_eq!(world.objects.find(&sent).await, Ok(None));
}

async fn a_url_reads_an_object_as_its_type(world: World) {
    world.objects.put(&key("jobs/1/x"), Bytes::from_static(b"{}")).await.unwrap();
    let url = world.objects.get_url(&key("jobs/1/x"), "application/json", None, good_for(60)).await.unwrap();
    let answer = http().get(&url).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "application/json");
    assert_eq!(answer.headers()["content-disposition"], "inline");
    assert_eq!(answer.bytes().await.unwrap(), "{}");
    let saved = world.objects.get_url(&key("jobs/1/x"), "application/zip", Some("x.zip"), good_for(60)).await;
    let answer = http().get(saved.unwrap()).send().await.unwrap();
    assert_eq!(answer.headers()["content-disposition"], "attachment; filename=\"x.zip\"");
    let edited = url.replace("application%2Fjson", "text%2Fhtml");
    assert_ne!(edited, url);
    assert_eq!(http().get(&edited).send().await.unwrap().status(), 403);
}
