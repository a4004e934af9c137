//! Trees against a plain one: vectors of children in a map.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::format;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::collections::testing::{Flaky, heaps, options, steps_that_fail};
use crate::heap::Heap;
use crate::random::Random;

/// The expected content of an entry; the data are its size and its sum.
#[derive(Clone)]
struct Known {
    parent: Option<NodeId>,
    size: u64,
    name: Vec<u8>,
    file: u64,
}

/// The expected content of a tree.
#[derive(Clone, Default)]
struct Model {
    entries: HashMap<NodeId, Known>,
    children: HashMap<Option<NodeId>, Vec<NodeId>>,
    files: u64,
}

impl Model {
    fn below(&self, node: NodeId) -> Vec<NodeId> {
        let mut all = vec![node];
        let mut at = 0;
        while at < all.len() {
            all.extend(self.children.get(&Some(all[at])).into_iter().flatten());
            at += 1;
        }
        all
    }

    fn above(&self, node: NodeId) -> Vec<NodeId> {
        std::iter::successors(self.entries[&node].parent, |node| self.entries[node].parent).collect()
    }

    fn out(&mut self, node: NodeId) {
        let parent = self.entries[&node].parent;
        let siblings = self.children.get_mut(&parent).unwrap();
        siblings.retain(|other| *other != node);
    }

    fn put(&mut self, node: NodeId, at: At) {
        let parent = match at {
            At::First(parent) | At::Last(parent) => parent,
            At::Before(sibling) | At::After(sibling) => self.entries[&sibling].parent,
        };
        let siblings = self.children.entry(parent).or_default();
        let place = |sibling| siblings.iter().position(|other| *other == sibling).unwrap();
        let place = match at {
            At::First(_) => 0,
            At::Last(_) => siblings.len(),
            At::Before(sibling) => place(sibling),
            At::After(sibling) => place(sibling) + 1,
        };
        siblings.insert(place, node);
        self.entries.get_mut(&node).unwrap().parent = parent;
    }

    fn of_file(&self, file: u64) -> BTreeSet<u64> {
        let same = self.entries.iter().filter(|(_, known)| known.file == file);
        same.map(|(node, _)| node.to_bits()).collect()
    }

    /// The sum of an entry: each file below it once.
    fn sum(&self, node: NodeId) -> u64 {
        let files: BTreeMap<u64, u64> =
            self.below(node).iter().map(|node| (self.entries[node].file, self.entries[node].size)).collect();
        files.values().sum()
    }
}

type Data = [u64; 2];

fn assert_is(tree: &Tree<'_, Data>, model: &Model) {
    assert_eq!(tree.check(), Ok(()));
    assert_eq!(tree.len(), model.entries.len() as u64);
    let all = model.entries.keys().map(|node| Some(*node)).chain([None]);
    for node in all {
        let children: Vec<_> = tree.children(node).map(Result::unwrap).collect();
        assert!(model.children.get(&node).map_or(children.is_empty(), |known| *known == children));
    }
    for (node, known) in &model.entries {
        let entry = tree.entry(*node).unwrap();
        assert!(entry.name == known.name && entry.data[0] == known.size);
        let same: BTreeSet<u64> =
            tree.same(*node).map(|node| node.unwrap().to_bits()).chain([node.to_bits()]).collect();
        assert_eq!(same, model.of_file(known.file));
    }
}

fn any(model: &Model, random: &mut Random) -> Option<NodeId> {
    // The order of a map is not the same each time.
    let mut all: Vec<u64> = model.entries.keys().map(|node| node.to_bits()).collect();
    all.sort_unstable();
    if all.is_empty() { None } else { NodeId::from_bits(all[random.index(all.len())]) }
}

fn place(model: &Model, random: &mut Random) -> At {
    match (random.below(5), any(model, random)) {
        (0, _) | (_, None) => At::Last(None),
        (1, node) => At::First(node),
        (2, node) => At::Last(node),
        (3, Some(node)) => At::Before(node),
        (_, Some(node)) => At::After(node),
    }
}

fn step(tree: &mut Tree<'_, Data>, model: &mut Model, random: &mut Random) -> Result<(), Error> {
    let (at, here) = (place(model, random), any(model, random));
    match (random.below(20), here) {
        (0..9, _) | (_, None) => {
            let (size, name) = (random.below(1000), random.bytes(random.0 as usize % 20));
            let node = tree.add(at, &[size, 0], &name)?;
            model.files += 1;
            model.entries.insert(node, Known { parent: None, size, name, file: model.files });
            model.put(node, at);
        }
        (9..11, Some(here)) => {
            let all = model.below(here);
            if all.len() < 40 {
                assert_eq!(tree.remove(here)?, all.len() as u64);
                model.out(here);
                for node in all {
                    model.children.remove(&Some(node));
                    model.entries.remove(&node);
                }
            }
        }
        (11..14, Some(here)) => {
            let above = match at {
                At::First(parent) | At::Last(parent) => parent,
                At::Before(sibling) | At::After(sibling) => model.entries[&sibling].parent,
            };
            let is_below = above.is_some_and(|above| model.below(here).contains(&above));
            assert_eq!(tree.move_to(here, at)?, !is_below);
            if !is_below && at != At::Before(here) && at != At::After(here) {
                model.out(here);
                model.put(here, at);
            }
        }
        (14..17, Some(here)) => {
            let other = any(model, random).unwrap();
            let (file, gone) = (model.entries[&here].file, model.entries[&other].file);
            assert_eq!(tree.link(here, other)?, file != gone);
            let size = model.entries[&here].size;
            for known in model.entries.values_mut().filter(|known| known.file == gone) {
                known.file = file;
            }
            for node in model.of_file(file) {
                let node = NodeId::from_bits(node).unwrap();
                model.entries.get_mut(&node).unwrap().size = size;
                while tree.update(node, |data| data[0] = size).is_err() {}
            }
        }
        (17, Some(here)) => {
            let is_linked = model.of_file(model.entries[&here].file).len() > 1;
            assert_eq!(tree.unlink(here)?, is_linked);
            model.files += 1;
            model.entries.get_mut(&here).unwrap().file = model.files;
        }
        (18, _) => {
            let of = here.filter(|_| random.below(4) > 0);
            tree.sort_children(of, |a, b| a.name.cmp(&b.name))?;
            if let Some(mut children) = model.children.remove(&of) {
                children.sort_by(|a, b| model.entries[a].name.cmp(&model.entries[b].name));
                model.children.insert(of, children);
            }
        }
        (_, Some(here)) => {
            assert_eq!(tree.get(here)?[0], model.entries[&here].size);
            let above: Vec<_> = tree.ancestors(here).collect::<Result<_, _>>()?;
            assert_eq!(above, model.above(here));
            let siblings = &model.children[&model.entries[&here].parent];
            let place = siblings.iter().position(|node| *node == here).unwrap();
            assert_eq!(tree.next(here)?, siblings.get(place + 1).copied());
            assert_eq!(tree.previous(here)?, place.checked_sub(1).map(|place| siblings[place]));
            assert_eq!(
                tree.last_child(Some(here))?,
                model.children.get(&Some(here)).and_then(|all| all.last().copied())
            );
        }
    }
    Ok(())
}

fn assert_sums(tree: &mut Tree<'_, Data>, model: &Model) {
    tree.sum_up(None, |data| data[0], |a, b| a + b, |data, sum| data[1] = sum).unwrap();
    for node in model.entries.keys() {
        assert_eq!(tree.get(*node).unwrap()[1], model.sum(*node));
    }
}

#[test]
fn as_a_plain_tree() {
    for (heap, times) in heaps() {
        let session = heap.session().unwrap();
        let random = &mut Random(times as u64);
        let (mut tree, mut model) = (Tree::new(&session), Model::default());
        for _ in 0..times {
            (0..20).for_each(|_| step(&mut tree, &mut model, random).unwrap());
            assert_is(&tree, &model);
            assert_sums(&mut tree, &model);
        }
        drop(tree);
        assert_eq!(heap.stats().nodes, 0);
    }
}

#[test]
fn a_failed_operation_changes_nothing() {
    let (heap, flaky) = Flaky::heap();
    let session = heap.session().unwrap();
    let random = &mut Random(2);
    let (mut failed, mut partly) = (0, 0);
    for _ in 0..4 {
        let (mut tree, mut model) = (Tree::new(&session), Model::default());
        (0..800).for_each(|_| step(&mut tree, &mut model, random).unwrap());
        for _ in 0..200 {
            let (before, old) = (random.below(5) * random.below(5), tree.len());
            let done = flaky.with(before, 1, || step(&mut tree, &mut model, random));
            assert!(matches!(done, Ok(()) | Err(Error::Damaged)), "{done:?}");
            if done.is_err() && tree.len() < old {
                // Not everything that was removed could be freed; no other operation reports this.
                assert_eq!(tree.check(), Ok(()));
                partly += 1;
                break;
            }
            if done.is_err() {
                failed += 1;
                assert_is(&tree, &model);
            }
        }
    }
    assert!(failed > 20 && partly < 4, "{failed}, {partly}");
}

/// An error is injected at each step of each operation, and from then on into every free: nothing has
/// changed, and nothing is left behind.
#[test]
fn failures_leave_trees_as_they_were() {
    for (mut heap, turns) in heaps() {
        {
            let session = heap.session().unwrap();
            let mut both = (Tree::new(&session), Model::default());
            let data = |tree: &Tree<'_, Data>, model: &Model| -> Vec<Data> {
                model.entries.keys().map(|node| tree.get(*node).unwrap()).collect()
            };
            let step = |(tree, model): &mut (Tree<'_, Data>, Model), random: &mut Random| {
                let (before, what) = (data(tree, model), random.below(12));
                let done = match (what, any(model, random)) {
                    (0, Some(node)) => tree.add_up(node, |data| data[1] += 7),
                    (1, Some(node)) => tree.update(node, |data| data[1] += 1),
                    (2, _) => tree.sum_up(None, |data| data[0], |a, b| a + b, |data, sum| data[1] = sum),
                    _ => step(tree, model, random),
                };
                match done {
                    Ok(()) if what == 2 => {
                        let is_sum = |node: &NodeId| tree.get(*node).unwrap()[1] == model.sum(*node);
                        assert!(model.entries.keys().all(is_sum));
                    }
                    Ok(()) => {}
                    // After a failure some entries have their sums, and others don't.
                    Err(_) => assert!(what == 2 || data(tree, model) == before),
                }
                done
            };
            let failed = steps_that_fail(&session, &mut both, 8 * turns, step, |(tree, model), failed| {
                assert_eq!(tree.len(), model.entries.len() as u64);
                if failed.is_multiple_of(4) {
                    assert_is(tree, model);
                }
            });
            assert!(failed > 8 * turns as u64, "{failed}");
            assert_is(&both.0, &both.1);
        }
        assert_eq!((heap.stats().nodes, heap.check()), (0, Ok(())));
    }
}

#[test]
fn as_deep_as_one_likes() {
    let heap = Heap::new(options()).unwrap();
    let session = heap.session().unwrap();
    let mut tree: Tree<'_, u64> = Tree::new(&session);
    let mut node = None;
    for depth in 0..50_000u64 {
        node = Some(tree.add(At::Last(node), &1, format!("{depth}").as_bytes()).unwrap());
    }
    assert!(tree.walk(None).enumerate().all(|(at, entry)| entry.unwrap().1 == at as u64));
    assert_eq!(tree.check(), Ok(()));
    tree.sum_up(None, |one| *one, |a, b| a + b, |one, sum| *one = sum).unwrap();
    let top = tree.first_child(None).unwrap().unwrap();
    assert_eq!(tree.get(top), Ok(50_000));
    let below = tree.first_child(Some(top)).unwrap().unwrap();
    assert_eq!((tree.remove(below), tree.len(), heap.stats().nodes), (Ok(49_999), 1, 1));
}

#[test]
fn sizes_added_up_one_by_one() {
    let heap = Heap::new(options()).unwrap();
    let session = heap.session().unwrap();
    let random = &mut Random(8);
    let mut tree: Tree<'_, Data> = Tree::new(&session);
    let (mut model, mut directories, mut files) = (Model::default(), vec![None], Vec::new());
    for number in 0..600u64 {
        let parent = directories[random.index(directories.len())];
        let at = At::Last(parent);
        let mut size = random.below(100);
        let same =
            if files.is_empty() || number % 5 > 0 { None } else { Some(files[random.index(files.len())]) };
        if let Some(same) = same {
            size = tree.get(same).unwrap()[0];
        }
        let node = tree.add(at, &[size, size], b"").unwrap();
        let file = same.map_or(number, |same| model.entries[&same].file);
        model.entries.insert(node, Known { parent, size, name: Vec::new(), file });
        model.put(node, at);
        match same {
            Some(same) => assert_eq!(tree.link(same, node), Ok(true)),
            None if number % 3 == 0 => directories.push(Some(node)),
            None => files.push(node),
        }
        tree.add_up(node, |data| data[1] += size).unwrap();
    }
    let sums = |tree: &Tree<'_, Data>| -> Vec<u64> {
        tree.walk(None).map(|entry| tree.get(entry.unwrap().0).unwrap()[1]).collect()
    };
    let one_by_one = sums(&tree);
    for node in model.entries.keys() {
        assert_eq!(tree.get(*node).unwrap()[1], model.sum(*node));
    }
    assert_sums(&mut tree, &model);
    assert_eq!(sums(&tree), one_by_one);
}

#[test]
fn stale_cursors_and_impossible_moves() {
    let heap = Heap::new(options().paranoid(true)).unwrap();
    let session = heap.session().unwrap();
    let mut tree: Tree<'_, u32> = Tree::new(&session);
    let a = tree.add(At::Last(None), &1, b"a").unwrap();
    let b = tree.add(At::Last(Some(a)), &2, b"b").unwrap();
    let c = tree.add(At::Last(Some(b)), &3, b"c").unwrap();
    assert_eq!((tree.move_to(a, At::First(Some(c))), tree.move_to(a, At::After(c))), (Ok(false), Ok(false)));
    assert_eq!((tree.move_to(a, At::After(a)), tree.move_to(c, At::First(None))), (Ok(true), Ok(true)));
    assert_eq!((tree.path(b, b'/'), tree.path(c, b'/')), (Ok(b"a/b".to_vec()), Ok(b"c".to_vec())));
    assert_eq!((tree.link(a, a), tree.unlink(a), tree.remove(a)), (Ok(false), Ok(false), Ok(2)));
    let gone = Err(Error::Stale);
    assert_eq!(tree.add(At::Last(Some(b)), &1, b""), gone);
    assert_eq!(tree.add(At::After(a), &1, b""), gone);
    assert_eq!((tree.get(a), tree.link(c, b)), (Err(Error::Stale), Err(Error::Stale)));
    assert_eq!((tree.remove(a), tree.move_to(c, At::Last(Some(a)))), (Err(Error::Stale), Err(Error::Stale)));
    assert_eq!((tree.len(), tree.check(), tree.clear(), heap.stats().nodes), (1, Ok(()), Ok(()), 0));
    assert!(tree.is_empty() && tree.add(At::First(None), &1, &[7; 9000]).is_ok() && tree.check().is_ok());
    assert_eq!(
        format!("{tree:?} {:?}", Entry { data: 1u32, name: vec![] }),
        "Tree { len: 1, .. } Entry { data: 1, name: [] }"
    );
}
