use memfold_args::top::columns::COLUMNS;
use memfold_shared::page::Shared;

use super::*;
use crate::settings::Settings;
use crate::settings::shared_page::SharedPage;

fn page() -> SharedPage {
    SharedPage::new(&Settings::example()).unwrap()
}

fn changes(seconds: f64) -> Changes {
    Changes { before: HashMap::new(), now: HashMap::new(), seconds: Some(seconds) }
}

const MIB: u64 = 1 << 20;

#[test]
fn columns_are_the_fields_in_their_order() {
    let page = page();
    let slot = page.page.take_slot(std::process::id()).unwrap();
    slot.state.store(state::PAGING, Relaxed);
    let gauges = [120 * MIB, 40 * MIB, 2 * MIB, MIB, 0];
    slot.resident.store(100 * MIB, Relaxed);
    let before = Totals { faults: 100, fault_ns: 1_000_000, stalled_ns: 0 };
    let now = Totals { faults: 300, fault_ns: 3_000_000, stalled_ns: 500_000_000 };
    let mut changes = changes(2.0);
    changes.before.insert((1, 2, None), before);
    let rates = changes.rates((1, 2, None), now);
    let row = row(slot, std::process::id() as i32, gauges, rates, now);
    let json = serde_json::to_string(&row).unwrap();
    let mut rest = json.as_str();
    for column in &COLUMNS {
        let (_, after) = rest.split_once(&format!("\"{}\":", column.name)).expect(column.name);
        rest = after;
    }
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json.as_object().unwrap().len(), COLUMNS.len());
    // 100 MiB are resident. The store takes 42 of them, for 120 MiB of data.
    assert_eq!((row.memory.logical_bytes, row.memory.saved_bytes), (178 * MIB, 78 * MIB as i64));
    assert_eq!((row.memory.compression_ratio, row.state), (Some(3.0), "paging"));
    let expected = Rates { faults_per_second: Some(100.0), fault_us: Some(10.0), stall_share: Some(0.25) };
    assert_eq!(row.rates, expected);
    // The process executes another program.
    slot.image.store(7, Relaxed);
    assert_eq!(super::row(slot, row.pid, gauges, rates, now).state, "unmanaged");
}

#[test]
fn a_tree_that_saves_nothing_yet_is_below_zero() {
    let memory = Memory::new(10 * MIB, [0, 0, MIB, 0, 0]);
    assert_eq!((memory.logical_bytes, memory.saved_bytes), (9 * MIB, -(MIB as i64)));
    assert_eq!(memory.compression_ratio, None);
}

#[test]
fn any_numbers_in_the_page_are_borne() {
    for values in [[u64::MAX; 5], [0, u64::MAX, u64::MAX, 0, 0], [u64::MAX, 1, 0, 7, u64::MAX]] {
        for resident in [0, 1, u64::MAX] {
            Memory::new(resident, values);
        }
    }
    let most = Totals { faults: u64::MAX, fault_ns: u64::MAX, stalled_ns: u64::MAX };
    let rates = changes(1.0).rates((0, 0, None), most.and(Totals::default()));
    assert_eq!(rates.stall_share, Some(1.0));
}

/// The rates of the processes in a page, as in a look at a tree.
fn rates_of(page: &Shared, changes: &mut Changes) -> Vec<(u32, f64)> {
    let live = page.slots.iter().enumerate().filter(|(_, slot)| slot.pid.load(Relaxed) != 0);
    live.map(|(number, slot)| {
        let pid = slot.pid.load(Relaxed);
        let rates = changes.rates((1, 1, Some((number, pid))), Totals::of(&slot.counters));
        (pid, rates.faults_per_second.unwrap())
    })
    .collect()
}

#[test]
fn a_slot_that_is_used_again_begins_anew() {
    let shared = page();
    let page = shared.page;
    let count = |slot: &Slot, faults: u64| slot.counters.pages_faulted.store(faults, Relaxed);
    let mut changes = changes(1.0);
    count(page.take_slot(10).unwrap(), 500);
    count(page.take_slot(11).unwrap(), 100);
    // Both processes are new since the last look.
    assert_eq!(rates_of(page, &mut changes), [(10, 500.0), (11, 100.0)]);

    let mut next = |page: &Shared| {
        changes.before = std::mem::take(&mut changes.now);
        rates_of(page, &mut changes)
    };
    assert_eq!(next(page), [(10, 0.0), (11, 0.0)]);
    // Process 10 ends, and 12 gets its slot. Process 11 ends, and a new process gets its slot and its id.
    let slots: Vec<&Slot> = page.live_slots().collect();
    slots.iter().for_each(|slot| _ = page.free_slot(slot));
    count(page.take_slot(12).unwrap(), 30);
    count(page.take_slot(11).unwrap(), 70);
    assert_eq!(next(page), [(12, 30.0), (11, 70.0)]);
    assert_eq!(page.ended.pages_faulted.load(Relaxed), 600);
    // A process that executes another program keeps its slot and its counters.
    count(page.take_slot(11).unwrap(), 90);
    assert_eq!(next(page), [(12, 0.0), (11, 20.0)]);
}

#[test]
fn the_first_look_has_no_rates() {
    let mut changes = changes(1.0);
    changes.seconds = None;
    assert_eq!(changes.rates((1, 1, None), Totals::default()), Rates::default());
}
