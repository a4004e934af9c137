use super::*;
use crate::made::Made;
use std::sync::mpsc;

struct Set {
    engine: Engine,
    trouble: Arc<Mutex<Option<Trouble>>>,
    changes: Mutex<mpsc::Receiver<Health>>,
}

fn set(patience: Duration) -> Set {
    let tier = Made::default();
    let trouble = tier.trouble.clone();
    let (tell, changes) = mpsc::channel();
    let tell = Mutex::new(tell);
    let told = move |health: &Health| {
        let _ = locked(&tell).send(health.clone());
    };
    Set {
        engine: Engine::start(Box::new(tier), patience, told).unwrap(),
        trouble,
        changes: Mutex::new(changes),
    }
}

impl Set {
    fn put(&self, batch: u64) -> Result<(), Trouble> {
        let (tell, told) = mpsc::channel();
        self.engine.put(batch, Arc::new(vec![batch as u8; 100]), move |result| {
            tell.send(result.clone().map(drop)).unwrap()
        });
        told.recv_timeout(Duration::from_secs(10)).unwrap()
    }

    fn get(&self, batch: u64) -> Result<(), Trouble> {
        let mut into = [0; 50];
        self.engine.get(batch, 50, &mut into).inspect(|()| assert_eq!(into, [batch as u8; 50]))
    }

    fn cause(&self, trouble: Option<Trouble>) {
        *locked(&self.trouble) = trouble;
    }

    fn change(&self) -> Health {
        locked(&self.changes).recv_timeout(Duration::from_secs(20)).unwrap()
    }
}

#[test]
fn while_it_is_away_nothing_is_written_and_gets_wait() {
    let set = set(Duration::from_secs(20));
    set.put(1).unwrap();
    let away = Trouble::Away("a cable".into());
    set.cause(Some(away.clone()));
    assert_eq!(set.put(2), Err(away.clone()));
    assert_eq!(set.change(), Health::Away("a cable".into()));
    assert_eq!(set.put(3), Err(away));
    std::thread::scope(|scope| {
        let got = scope.spawn(|| set.get(1));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!got.is_finished());
        set.cause(None);
        got.join().unwrap().unwrap();
    });
    assert_eq!(set.change(), Health::Open);
    set.put(4).unwrap();
    assert_eq!(set.get(3), Err(Trouble::Lost));
}

#[test]
fn a_reader_notices_that_the_tier_is_back() {
    let set = set(Duration::ZERO);
    set.put(1).unwrap();
    set.cause(Some(Trouble::Away("a cable".into())));
    assert!(set.get(1).is_err());
    assert_eq!(set.change(), Health::Away("a cable".into()));
    // It was probed after 0.5, 1.5 and 3.5 seconds; the next probe is after 7.5.
    std::thread::sleep(Duration::from_millis(4200));
    set.cause(None);
    let begin = Instant::now();
    set.get(1).unwrap();
    assert_eq!(set.change(), Health::Open);
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}

#[test]
fn patience_ends() {
    let set = set(Duration::from_millis(300));
    set.put(1).unwrap();
    set.cause(Some(Trouble::Away("a cable".into())));
    let begin = Instant::now();
    assert!(matches!(set.get(1), Err(Trouble::Away(_))));
    assert!((300..2000).contains(&begin.elapsed().as_millis()));
    assert_eq!(set.get(1), Err(Trouble::Away("a cable".into())));
}

#[test]
fn a_full_one_takes_more_when_something_was_deleted() {
    let set = set(Duration::ZERO);
    set.put(1).unwrap();
    set.cause(Some(Trouble::Full));
    assert_eq!(set.put(2), Err(Trouble::Full));
    assert_eq!(set.change(), Health::Full);
    set.get(1).unwrap();
    set.cause(None);
    set.engine.delete(1);
    assert_eq!(set.change(), Health::Open);
    set.put(2).unwrap();
}

#[test]
fn an_unfit_tier_is_read_but_no_longer_written() {
    let set = set(Duration::ZERO);
    set.put(1).unwrap();
    set.cause(Some(Trouble::Unfit("it forgets".into())));
    assert!(set.put(2).is_err());
    assert_eq!(set.change(), Health::Unfit("it forgets".into()));
    set.cause(None);
    assert_eq!(set.put(3), Err(Trouble::Unfit("it forgets".into())));
    set.get(1).unwrap();
}

#[test]
fn a_call_that_does_not_end_holds_up_no_end() {
    let tier = Made::default();
    let held = tier.batches.clone();
    let mut engine = Engine::start(Box::new(tier), Duration::ZERO, |_| {}).unwrap();
    let held = locked(&held);
    let answers = Arc::new(AtomicU64::new(0));
    for batch in 0..5 {
        let answers = answers.clone();
        engine.put(batch, Arc::default(), move |result| {
            assert!(result.is_err());
            answers.fetch_add(1, Relaxed);
        });
    }
    engine.delete(9);
    let begin = Instant::now();
    while locked(&engine.inner.queue).puts.len() > 3 {
        assert!(begin.elapsed() < Duration::from_secs(20));
        std::thread::yield_now();
    }
    engine.end_threads();
    // Two threads hang in calls; the other puts are answered.
    assert_eq!(answers.load(Relaxed), 3);
    drop(engine);
    assert!(begin.elapsed() < 4 * LAST, "{:?}", begin.elapsed());
    drop(held);
}

#[test]
fn at_the_end_all_is_deleted_that_was_to_be() {
    let set = set(Duration::ZERO);
    (0..100).for_each(|batch| set.put(batch).unwrap());
    (0..100).for_each(|batch| set.engine.delete(batch));
    let inner = set.engine.inner.clone();
    drop(set.engine);
    assert_eq!(inner.tier.room().used, 0);
    assert_eq!(inner.counters.deleted.load(Relaxed), 100);
}
