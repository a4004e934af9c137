use super::*;
use crate::report::record::steps::{Counts, Steps};

const MS: u64 = 1_000_000;

/// A record of reads at these times, each with the counters of some processes.
#[derive(Default)]
struct Record {
    waits: AllWaits,
    spans: Spans,
    read: u64,
}

impl Record {
    /// What lives is read: id, stall and throttled time.
    fn read(&mut self, at: u64, processes: &[(u32, u64, u64)]) {
        processes
            .iter()
            .for_each(|(pid, stalled, throttled)| self.waits.add_live(*pid, [*stalled, *throttled]));
        self.waits.place(self.read, at, &mut self.spans);
        self.read = at;
    }

    /// The record by steps of 10 ms: stalled and throttled time.
    fn steps(mut self) -> Vec<[u64; 2]> {
        self.spans.stalled.extend(self.waits.end());
        let mut steps = Steps::new();
        assert_eq!(steps.reach(self.read), 0);
        for span in &self.spans.stalled {
            assert!(span.to >= span.from && span.ns <= span.to - span.from, "{span:?}");
            steps.spread(span.from, span.to, Counts { stalled_ns: span.ns, ..Counts::default() });
        }
        for span in &self.spans.throttled {
            steps.spread(span.from, span.to, Counts { throttled_ns: span.ns, ..Counts::default() });
        }
        steps.steps().iter().map(|(_, counts)| [counts.stalled_ns, counts.throttled_ns]).collect()
    }
}

#[test]
fn a_long_wait_lies_in_all_the_steps_that_it_spans() {
    let mut record = Record::default();
    // From 25 ms to 95 ms; before that it waited for 2 ms.
    for at in 1..=10 {
        let counted = if at < 2 {
            0
        } else if at < 10 {
            2
        } else {
            72
        };
        let room = if at < 10 { 0 } else { 70 };
        record.read(at * 10 * MS, &[(7, counted * MS, room * MS)]);
    }
    let steps = record.steps();
    let stalled: Vec<u64> = steps.iter().map(|step| step[0] / MS).collect();
    // It is known to lie in the last 70 ms of the 100 ms.
    assert_eq!(&stalled[..10], [0, 2, 0, 10, 10, 10, 10, 10, 10, 10]);
    assert!(
        steps.iter().all(|step| step[0] <= 10 * MS && step[0] == step[1] || step[0] == 2 * MS),
        "{steps:?}"
    );
}

#[test]
fn a_wait_pushes_back_what_was_counted_before() {
    let mut record = Record::default();
    // 6 ms of waiting were read at 40 ms, evenly since 10 ms. A wait of 35 ms that was read at 60 ms must have
    // begun by 25 ms.
    record.read(10 * MS, &[]);
    record.read(40 * MS, &[(7, 6 * MS, 0)]);
    record.read(50 * MS, &[(7, 6 * MS, 0)]);
    record.read(60 * MS, &[(7, 41 * MS, 0)]);
    let stalled: Vec<u64> = record.steps().iter().map(|step| step[0] / MS).collect();
    assert_eq!(&stalled[..6], [0, 4, 2 + 5, 10, 10, 10]);
}

#[test]
fn no_process_waits_for_more_than_all_the_time() {
    let mut seed = 11u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below.max(1)
    };
    for round in 0..300 {
        // The true waits of a process with a few threads: parts of the time that follow each other.
        let most = [3 * MS, 30 * MS, 400 * MS][round % 3];
        let (mut waits, mut time) = (Vec::new(), random(20 * MS));
        while time < 3000 * MS {
            let end = time + 1 + random(most);
            waits.push((time, end));
            time = end + if random(3) == 0 { random(most) } else { 0 };
        }
        let until =
            |at: u64| waits.iter().filter(|wait| wait.1 <= at).map(|wait| wait.1 - wait.0).sum::<u64>();
        let (mut record, mut at) = (Record::default(), 0);
        while at < 3500 * MS {
            // The clock is read some time after the counter.
            let read = at + 3 * MS + random(20 * MS);
            at = read + random([1, MS / 10, 4 * MS][round / 3 % 3]);
            record.read(at, &[(7, until(read), 0)]);
        }
        let steps = record.steps();
        assert!(steps.iter().all(|step| step[0] <= 10 * MS), "{round}: {steps:?}");
        assert_eq!(steps.iter().map(|step| step[0]).sum::<u64>(), until(u64::MAX), "{round}");
        // At any time, the record is at most a read away from the truth.
        let (mut placed, mut truth) = (0u64, 0u64);
        for (step, [stalled, _]) in steps.iter().enumerate() {
            placed += stalled;
            let (from, to) = (step as u64 * 10 * MS, (step as u64 + 1) * 10 * MS);
            let inside = |wait: &(u64, u64)| wait.1.clamp(from, to) - wait.0.clamp(from, to);
            truth += waits.iter().map(inside).sum::<u64>();
            assert!(placed.abs_diff(truth) <= 45 * MS, "{round}: {step}: {placed} {truth}");
        }
    }
}

#[test]
fn nothing_is_lost_when_processes_end_or_share_an_id() {
    let mut record = Record::default();
    record.read(10 * MS, &[(7, 3 * MS, 2 * MS), (7, MS, 0)]);
    // One ends, another one takes its id, and ends before it is read.
    record.waits.add_ended(7, [4 * MS, 2 * MS]);
    record.waits.add_ended(7, [2 * MS, 40 * MS]);
    record.read(20 * MS, &[(7, MS, 0), (8, 5 * MS, 0)]);
    record.waits.add_ended(7, [3 * MS, 0]);
    record.read(30 * MS, &[(8, 5 * MS, 0)]);
    assert_eq!(record.waits.processes.len(), 1);
    let steps = record.steps();
    let sums = steps.iter().fold([0; 2], |sum, step| [sum[0] + step[0], sum[1] + step[1]]);
    assert_eq!(sums, [14 * MS, 42 * MS]);
}

#[test]
fn waits_for_room_are_within_the_time_that_their_process_waited() {
    let mut record = Record::default();
    // Eight threads wait from 40 ms to 60 ms; another process waits meanwhile.
    record.read(40 * MS, &[(8, 5 * MS, 5 * MS)]);
    record.read(50 * MS, &[(8, 5 * MS, 5 * MS)]);
    record.read(60 * MS, &[(7, 20 * MS, 160 * MS), (8, 5 * MS, 5 * MS)]);
    let throttled: Vec<u64> = record.steps().iter().map(|step| step[1] / MS).collect();
    assert_eq!(throttled[4..6], [80, 80]);
    assert_eq!(throttled[..4].iter().sum::<u64>(), 4);
}

/// The last read finds 14 ms of waits in 10 ms. All the time since 16 ms is taken already, so 4 ms were waited
/// before that: their thread lost the processor before it counted them.
#[test]
fn what_is_counted_late_goes_where_there_is_room() {
    let mut record = Record::default();
    record.read(10 * MS, &[(7, 2 * MS, 0)]);
    record.read(20 * MS, &[(7, 2 * MS, 0)]);
    record.read(30 * MS, &[(7, 16 * MS, 0)]);
    record.read(40 * MS, &[(7, 26 * MS, 0)]);
    record.read(50 * MS, &[(7, 40 * MS, 0)]);
    let steps = record.steps();
    assert!(steps.iter().all(|step| step[0] <= 10 * MS), "{steps:?}");
    assert_eq!(steps.iter().map(|step| step[0]).sum::<u64>(), 40 * MS);
}
