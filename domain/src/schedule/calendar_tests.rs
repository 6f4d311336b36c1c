use super::*;
use proptest::prelude::*;

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;
const ZONES_TRIED: [&str; 7] = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "UTC",
    "Asia/Kolkata",
    // Clocks go forward at midnight.
    "America/Santiago",
];

fn parse(json: &str) -> Schedule {
    serde_json::from_str(json).unwrap()
}

fn utc(text: &str) -> Timestamp {
    Timestamp(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

fn fires(schedule: &Schedule, from: &str, n: usize) -> Vec<String> {
    let next = |at: &Timestamp| schedule.next_after(Timestamp(0), *at);
    let first = next(&utc(from));
    let all = std::iter::successors(first, next).take(n);
    all.map(|at| jiff::Timestamp::from_millisecond(at.0).unwrap().to_string()).collect()
}

fn daily(hours: &str, zone: &str) -> Schedule {
    parse(&format!(
        r#"{{"calendar":{{"times_of_day":[{hours}],"cadence":{{"daily":{{}}}}}},"timezone":"{zone}"}}"#
    ))
}

#[test]
fn what_is_stored_is_what_callers_write() {
    for text in [
        r#"{"at":"2026-09-01T09:00:00","timezone":"Europe/Berlin"}"#,
        r#"{"rate":{"every":15,"unit":"minute"}}"#,
        r#"{"calendar":{"times_of_day":["09:00","18:00"],"cadence":{"daily":{}}},"timezone":"UTC"}"#,
        r#"{"calendar":{"times_of_day":["00:00"],"cadence":{"weekly":{"days":["mon","sun"]}}},"timezone":"UTC"}"#,
        r#"{"calendar":{"times_of_day":["23:00"],"cadence":{"monthly":{"days":[1,31]}}},"timezone":"UTC"}"#,
    ] {
        assert_eq!(serde_json::to_string(&parse(text)).unwrap(), text);
    }
}

#[test]
fn only_plain_times_full_hours_and_known_zones_are_taken() {
    for good in ["2026-09-01T09:00:00", "2026-09-01T09:00", "2026-09-01 09:00:00", "2026-09-01T09:00:00.5"] {
        assert!(WallTime::try_from(good.to_owned()).is_ok(), "{good}");
    }
    let zoned = ["2026-09-01T09:00:00Z", "2026-09-01T09:00:00+02:00", "2026-09-01T09:00:00[UTC]"];
    for bad in zoned.into_iter().chain([
        "2026-09-01",
        "2026-13-01T09:00:00",
        "",
        "T",
        "09:00",
        "2026-02-30T01:00:00",
    ]) {
        assert_eq!(WallTime::try_from(bad.to_owned()), Err(Malformed::WallTime), "{bad}");
    }
    for bad in ["9:00", "09:30", "24:00", "0900", "+9:00", "", "09:00:00", "٠٩:00"] {
        assert_eq!(Hour::try_from(bad.to_owned()), Err(Malformed::Hour), "{bad}");
    }
    assert_eq!(Zone::parse("europe/berlin").unwrap().to_string(), "Europe/Berlin");
    for bad in ["", "Mars/Olympus", "Etc/Unknown", "+02:00", "CET-1CEST,M3.5.0,M10.5.0/3", "../etc/passwd"] {
        assert_eq!(Zone::parse(bad), Err(Malformed::Zone), "{bad}");
    }
}

#[test]
fn intervals_are_bounded() {
    assert!(Interval::new(0, Unit::Day).is_none());
    assert!(Interval::new(366, Unit::Day).is_some() && Interval::new(367, Unit::Day).is_none());
    assert!(Interval::new(u32::MAX, Unit::Minute).is_none());
}

#[test]
fn a_skipped_hour_is_the_moment_after_the_gap_and_a_repeated_one_the_first() {
    let berlin = daily(r#""02:00""#, "Europe/Berlin");
    assert_eq!(
        fires(&berlin, "2026-03-28T00:00:00Z", 3),
        ["2026-03-28T01:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]
    );
    assert_eq!(
        fires(&berlin, "2026-10-24T12:00:00Z", 2),
        ["2026-10-25T00:00:00Z", "2026-10-26T01:00:00Z"],
        "once, at the first 02:00"
    );
    let both = daily(r#""02:00","03:00""#, "Europe/Berlin");
    assert_eq!(
        fires(&both, "2026-03-29T00:00:00Z", 2),
        ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"],
        "two times in one moment are one fire"
    );
    // Half an hour.
    assert_eq!(
        fires(&daily(r#""02:00""#, "Australia/Lord_Howe"), "2026-10-03T00:00:00Z", 1),
        ["2026-10-03T15:30:00Z"]
    );
}

#[test]
fn a_day_that_never_was_fires_with_the_one_after_it() {
    // Samoa had no 30 December 2011.
    assert_eq!(
        fires(&daily(r#""09:00""#, "Pacific/Apia"), "2011-12-29T10:00:00Z", 3),
        ["2011-12-29T19:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T19:00:00Z"]
    );
}

#[test]
fn one_time_in_a_gap_is_not_lost_and_one_that_passed_is_over() {
    let at = parse(r#"{"at":"2026-03-29T02:30:00","timezone":"Europe/Berlin"}"#);
    assert_eq!(fires(&at, "2026-03-01T00:00:00Z", 5), ["2026-03-29T01:00:00Z"]);
    assert_eq!(at.next_after(Timestamp(0), utc("2026-03-29T01:00:00Z")), None);
}

#[test]
fn days_that_a_month_does_not_have_are_left_out() {
    let last = parse(
        r#"{"calendar":{"times_of_day":["12:00"],"cadence":{"monthly":{"days":[31]}}},"timezone":"UTC"}"#,
    );
    assert_eq!(
        fires(&last, "2026-01-31T12:00:00Z", 3),
        ["2026-03-31T12:00:00Z", "2026-05-31T12:00:00Z", "2026-07-31T12:00:00Z"]
    );
}

#[test]
fn a_zone_that_is_not_known_any_more_fires_nothing() {
    assert_eq!(daily(r#""02:00""#, "Atlantis/Poseidonis").next_after(Timestamp(0), Timestamp(0)), None);
}

fn cadence() -> impl Strategy<Value = Cadence> {
    let day = prop::sample::select(vec![
        Weekday::Mon,
        Weekday::Tue,
        Weekday::Wed,
        Weekday::Thu,
        Weekday::Fri,
        Weekday::Sat,
        Weekday::Sun,
    ]);
    prop_oneof![
        Just(Cadence::Daily {}),
        prop::collection::btree_set(day, 1..4).prop_map(|days| Cadence::Weekly { days }),
        prop::collection::btree_set(1u8..32, 1..8).prop_map(|days| Cadence::Monthly { days }),
    ]
}

fn calendar() -> impl Strategy<Value = Calendar> {
    let hours = prop::collection::btree_set((0u8..24).prop_map(Hour), 1..5);
    (hours, cadence()).prop_map(|(times_of_day, cadence)| Calendar { times_of_day, cadence })
}

/// Moments around changes of the clocks, for the most part.
fn moment() -> impl Strategy<Value = (usize, i64)> {
    let around = (0usize..ZONES_TRIED.len(), 0usize..8, -2 * DAY..2 * DAY);
    around.prop_map(|(zone, change, offset)| {
        let resolved = Zone(ZONES_TRIED[zone].to_owned()).resolve().unwrap();
        let from = jiff::Timestamp::from_millisecond(utc("2025-01-01T00:00:00Z").0).unwrap();
        let at = resolved.following(from).nth(change).map_or(from, |change| change.timestamp());
        (zone, at.as_millisecond() + offset)
    })
}

/// Walks minute by minute: a time of a day fires when the wall first shows it, or something later.
fn by_the_minute(calendar: &Calendar, zone: &TimeZone, from: i64, minutes: i64) -> Vec<i64> {
    let wall = |at: i64| zone.to_datetime(jiff::Timestamp::from_millisecond(at).unwrap());
    // Late enough before that everything up to there was shown.
    let start = (from - 3 * DAY).div_euclid(MINUTE) * MINUTE;
    let mut latest = wall(start);
    let mut fires = Vec::new();
    let mut at = start;
    while at < from + minutes * MINUTE {
        at += MINUTE;
        let now = wall(at);
        if now <= latest {
            continue;
        }
        // Everything that was shown, or jumped over, since.
        let mut day = latest.date();
        let mut due = false;
        while day <= now.date() {
            let times = calendar.times_of_day.iter().filter(|_| calendar.cadence.has(day));
            due |= times.map(|hour| hour.on(day).unwrap()).any(|time| latest < time && time <= now);
            day = day.tomorrow().unwrap();
        }
        latest = now;
        if due && at > from {
            fires.push(at);
        }
    }
    fires
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_calendar_fires_when_the_clock_on_the_wall_says_so(
        calendar in calendar(), (zone, from) in moment(), days in 1i64..5,
    ) {
        let name = Zone(ZONES_TRIED[zone].to_owned());
        let resolved = name.resolve().unwrap();
        let expected = by_the_minute(&calendar, &resolved, from, days * 24 * 60);
        let schedule = Schedule { rule: Rule::Calendar(calendar), timezone: Some(name) };
        let next = |at: &Timestamp| schedule.next_after(Timestamp(0), *at);
        let found: Vec<i64> = std::iter::successors(next(&Timestamp(from)), next)
            .map(|at| at.0)
            .take_while(|at| *at <= from + days * DAY)
            .collect();
        let expected: Vec<i64> = expected.into_iter().filter(|at| *at <= from + days * DAY).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn the_next_fire_is_later_and_never_goes_back(
        calendar in calendar(), (zone, from) in moment(), later in 0i64..40 * DAY,
    ) {
        let schedule = Schedule {
            rule: Rule::Calendar(calendar),
            timezone: Some(Zone(ZONES_TRIED[zone].to_owned())),
        };
        let next = schedule.next_after(Timestamp(0), Timestamp(from)).unwrap();
        prop_assert!(next.0 > from);
        let after = schedule.next_after(Timestamp(0), Timestamp(from + later)).unwrap();
        prop_assert!(after >= next);
        prop_assert!(after == next || from + later >= next.0, "none is left out");
    }

    #[test]
    fn an_interval_keeps_in_step_with_its_anchor(
        every in 1u32..1_000, anchor in 0i64..1 << 42, passed in -DAY..400 * DAY,
    ) {
        let interval = Interval::new(every, Unit::Minute).unwrap();
        let schedule = Schedule { rule: Rule::Rate(interval), timezone: None };
        let (length, now) = (interval.length().as_millis() as i64, anchor + passed);
        let next = schedule.next_after(Timestamp(anchor), Timestamp(now)).unwrap().0;
        prop_assert!(next > now && next > anchor && (next - anchor) % length == 0);
        prop_assert!(next - now <= length || next == anchor + length);
    }
}
