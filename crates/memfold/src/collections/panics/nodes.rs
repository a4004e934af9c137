//! Lists and trees, whose elements are nodes, and nodes alone.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::string::String;
use std::vec::Vec;

use super::{at_each_call, call, each_heap, string, with_panic_at};
use crate::collections::list::{Doubly, Kind, Ring, Singly};
use crate::collections::tree::{At, Entry, NodeId};
use crate::collections::{List, Tree};
use crate::heap::Heap;

fn all<K: Kind>(list: &List<'_, str, K>) -> Vec<String> {
    list.iter().map(Result::unwrap).collect()
}

fn lists<K: Kind>(heap: &Heap) {
    let session = heap.session().unwrap();
    let mut list: List<'_, str, K> = List::new(&session);
    let elements: Vec<String> = (0..40).map(|number| string(number * 7 % 40, 7)).collect();
    // Elements added before the panic stay.
    for n in 1..=40 {
        let given = || elements.iter().inspect(|_| call()).map(String::as_str);
        assert!(with_panic_at(n, || list.extend(given()).unwrap()).is_none());
        assert_eq!(list.check(), Ok(()));
        assert_eq!(all(&list), elements[..n as usize - 1]);
        list.clear().unwrap();
    }
    list.extend(elements.iter().map(String::as_str)).unwrap();
    let see = |list: &mut List<'_, str, K>| {
        assert_eq!(list.check(), Ok(()));
        assert_eq!(all(list), elements);
    };
    let wanted = &elements[30];
    let is_it = |element: &String| {
        call();
        element == wanted
    };
    let (found, panics) = at_each_call(&mut list, |list| list.find(is_it).unwrap(), see);
    assert!(found.is_some() && panics == 31);
    let order = |a: &String, b: &String| {
        call();
        a.cmp(b)
    };
    at_each_call(&mut list, |list| list.sort_by(order).unwrap(), see);
    let mut left = elements.clone();
    left.sort();
    assert_eq!((list.check(), all(&list)), (Ok(()), left.clone()));
    // Elements decided on before the panic are kept or removed.
    let is_kept = |element: &String| element.len().is_multiple_of(2);
    let keep = |element: &String| {
        call();
        is_kept(element)
    };
    let decided = RefCell::new(0);
    let see = |list: &mut List<'_, str, K>| {
        *decided.borrow_mut() += 1;
        let seen = *decided.borrow() - 1;
        let mut expected: Vec<_> = left[..seen].iter().filter(|one| is_kept(one)).cloned().collect();
        expected.extend_from_slice(&left[seen..]);
        assert_eq!((list.check(), all(list)), (Ok(()), expected));
        list.clear().unwrap();
        list.extend(left.iter().map(String::as_str)).unwrap();
    };
    at_each_call(&mut list, |list| list.retain(keep).unwrap(), see);
    assert_eq!(*decided.borrow(), 40);
    left.retain(is_kept);
    assert_eq!((list.check(), all(&list)), (Ok(()), left));
}

#[test]
fn lists_of_all_kinds() {
    each_heap(|heap, _| {
        lists::<Singly>(heap);
        lists::<Doubly>(heap);
        lists::<Ring<Singly>>(heap);
        lists::<Ring<Doubly>>(heap);
    });
}

/// A tree of ten levels with some entries each, two of which are of one file; and the deepest entries.
fn tree<'s>(session: &'s crate::heap::Session<'_>) -> (Tree<'s, u64>, Vec<NodeId>) {
    let (mut tree, mut parent, mut deep) = (Tree::new(session), None, Vec::new());
    for level in 0..10u64 {
        for number in 0..6 {
            let name = string(10 * level + number, 11);
            let node = tree.add(At::First(parent), &(number * 5 % 7), name.as_bytes()).unwrap();
            if number == 5 {
                deep.push(node);
            }
        }
        parent = deep.last().copied();
    }
    tree.link(deep[9], deep[4]).unwrap();
    (tree, deep)
}

fn data(tree: &Tree<'_, u64>) -> Vec<u64> {
    tree.walk(None).map(|entry| tree.get(entry.unwrap().0).unwrap()).collect()
}

#[test]
fn trees() {
    each_heap(|heap, _| {
        let session = heap.session().unwrap();
        let (mut tree, deep) = tree(&session);
        let before = data(&tree);
        let see = |tree: &mut Tree<'_, u64>| assert_eq!((tree.check(), data(tree)), (Ok(()), before.clone()));
        let change = |data: &mut u64| {
            *data += 100;
            call();
        };
        let (_, panics) = at_each_call(&mut tree, |tree| tree.update(deep[3], change).unwrap(), see);
        assert_eq!((panics, tree.get(deep[3]).unwrap()), (1, 4 + 100));
        tree.update(deep[3], |data| *data -= 100).unwrap();
        // The parents of the deepest entry that have no other entry of its file below them.
        let (_, panics) = at_each_call(&mut tree, |tree| tree.add_up(deep[9], change).unwrap(), see);
        assert_eq!(panics, 4);
        assert!(deep.iter().enumerate().all(|(level, node)| {
            tree.get(*node).unwrap() == if (5..9).contains(&level) { 104 } else { 4 }
        }));
        deep[5..9].iter().for_each(|node| tree.set(*node, &4).unwrap());
        let order = |a: &Entry<u64>, b: &Entry<u64>| -> Ordering {
            call();
            a.data.cmp(&b.data)
        };
        let (_, panics) =
            at_each_call(&mut tree, |tree| tree.sort_children(Some(deep[2]), order).unwrap(), see);
        assert!(panics > 4);
        let children: Vec<_> =
            tree.children(Some(deep[2])).map(|child| tree.get(child.unwrap()).unwrap()).collect();
        assert_eq!((tree.check(), children), (Ok(()), std::vec![0, 1, 3, 4, 5, 6]));
    });
}

/// After a panic some entries have their sums and others don't; none has anything else.
#[test]
fn sums_of_trees() {
    each_heap(|heap, _| {
        let session = heap.session().unwrap();
        let (mut tree, _) = tree(&session);
        let before = data(&tree);
        let add_up = |tree: &mut Tree<'_, u64>| {
            let own = |data: &u64| {
                call();
                *data % 1000
            };
            let add = |a: u64, b: u64| {
                call();
                a + b
            };
            tree.sum_up(None, own, add, |data, sum| {
                // The entry's own value stays as it is.
                *data = *data % 1000 + 1000 * sum;
                call();
            })
            .unwrap();
        };
        let mut sums = before.clone();
        let mut seen = Vec::new();
        let see = |tree: &mut Tree<'_, u64>| {
            assert_eq!(tree.check(), Ok(()));
            seen.push(data(tree));
        };
        let (_, panics) = at_each_call(&mut tree, add_up, see);
        sums.clone_from(&data(&tree));
        assert!(panics > 180 && sums != before);
        for data in seen {
            let is_either = |at: usize| data[at] == before[at] || data[at] == sums[at];
            assert!((0..data.len()).all(is_either));
        }
    });
}

/// Closures of a session: if a change in place panics, it may be half done; afterwards the node can be
/// changed and freed, and the session used.
#[test]
fn nodes_alone() {
    each_heap(|heap, _| {
        let mut session = heap.session().unwrap();
        for len in [16, 2000, 40_000] {
            let node = session.put_bytes(&std::vec![1; len]).unwrap();
            let panics = |n: u64, done: Option<()>| assert_eq!(done.is_none(), n == 1);
            for n in [1, 0] {
                panics(n, with_panic_at(n, || session.view(node, |_| call()).unwrap()));
                panics(n, with_panic_at(n, || session.change_in_place(node, |_| call()).unwrap()));
                for at in [0, 3, 8] {
                    let done = with_panic_at(n, || {
                        let change = |number: &mut u64| {
                            *number = 7;
                            call();
                        };
                        session.update_at(node, at, change).unwrap();
                    });
                    panics(n, done);
                    session.set_at(node, at, &5u64).unwrap();
                    assert_eq!(session.get_at::<u64>(node, at), Ok(5));
                }
                if len == 16 {
                    let done = with_panic_at(n, || session.update(node, |_: &mut [u64; 2]| call()).unwrap());
                    panics(n, done);
                }
            }
            session.free(node).unwrap();
        }
    });
}
