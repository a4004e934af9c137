//! Lists of any kind: the functions see elements as bytes.

use std::any::Any;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ffi::{CString, c_int};
use std::ops::Bound;

use memfold::collections::{Cursor, Natural, Ordered, SlabList};
use memfold::heap::Session;

use crate::error::{Code, Failure};
use crate::session::lists::kind::{By, Item, Kind, Order};
use crate::session::lists::options::{CIRCULAR, MANY, ORDERED, Settled};
use crate::session::lists::{Room, serial};

/// Called for each element until it returns something other than 0.
pub type Visit<'v> = &'v mut dyn FnMut(&[u8]) -> c_int;

/// The operations of a list.
pub trait AnyList {
    fn as_any(&self) -> &dyn Any;
    fn kind(&self) -> Kind;
    fn name(&self) -> Option<&CString>;
    fn len(&self) -> u64;
    fn own_bytes(&self) -> usize;
    fn check(&self) -> Result<(), Failure>;

    // For sorted lists.
    fn add(&mut self, element: &[u8]) -> Result<bool, Failure>;
    fn replace(&mut self, element: &[u8]) -> Result<bool, Failure>;
    fn remove(&mut self, element: &[u8]) -> Result<bool, Failure>;
    fn contains(&self, element: &[u8]) -> Result<bool, Failure>;
    fn find(&self, element: &[u8]) -> Result<u64, Failure>;
    fn bound(&self, element: &[u8], behind: bool) -> Result<u64, Failure>;

    // For lists whose order the program sets.
    fn insert_at(&mut self, position: u64, element: &[u8]) -> Result<(), Failure>;
    fn set_at(&mut self, position: u64, element: &[u8]) -> Result<(), Failure>;
    fn push(&mut self, element: &[u8]) -> Result<(), Failure>;
    fn sort(&mut self) -> Result<(), Failure>;
    fn reverse(&mut self) -> Result<(), Failure>;

    // By position.
    fn get(&self, position: u64, room: &mut Room<'_>) -> Result<(), Failure>;
    fn remove_at(&mut self, position: u64) -> Result<(), Failure>;
    fn remove_range(&mut self, from: u64, to: u64) -> Result<u64, Failure>;
    fn extract(&mut self, from: u64, to: u64) -> Result<Box<dyn AnyList>, Failure>;
    fn fold(&self, from: u64, to: u64, backwards: bool, visit: Visit<'_>) -> Result<c_int, Failure>;

    fn compare(&self, other: &dyn AnyList) -> Result<Ordering, Failure>;
    fn reap(&mut self) -> Result<usize, Failure>;
    fn clear(&mut self) -> Result<(), Failure>;

    // By cursor.
    fn cursor_new(&mut self, position: u64) -> Result<u64, Failure>;
    fn cursor_free(&mut self, cursor: u64) -> Result<(), Failure>;
    fn cursor_position(&self, cursor: u64) -> Result<u64, Failure>;
    fn cursor_move(&mut self, cursor: u64, backwards: bool) -> Result<(), Failure>;
}

/// A list by its order.
enum Body<E: ?Sized + Item> {
    Natural(SlabList<'static, E>),
    By(SlabList<'static, E, By>),
    Ordered(SlabList<'static, E, Ordered>),
}

/// A list of these elements.
struct Of<E: ?Sized + Item> {
    kind: Kind,
    order: Order,
    body: Body<E>,
    /// By their numbers.
    cursors: BTreeMap<u64, Cursor>,
    /// The list's name, with the null that C needs at the end.
    name: Option<CString>,
}

/// An empty list.
pub fn new(session: &'static Session<'static>, settled: &Settled) -> Box<dyn AnyList> {
    match settled.kind {
        Kind::Bytes => Box::new(Of::<[u8]>::new(session, settled)),
        _ => Box::new(Of::<u64>::new(session, settled)),
    }
}

/// Dispatches on the order of a list.
macro_rules! any {
    ($body:expr, $list:ident => $work:expr) => {
        match $body {
            Body::Natural($list) => $work,
            Body::By($list) => $work,
            Body::Ordered($list) => $work,
        }
    };
}

/// A sorted list.
macro_rules! sorted {
    ($body:expr, $list:ident => $work:expr) => {
        match $body {
            Body::Natural($list) => $work,
            Body::By($list) => $work,
            Body::Ordered(_) => return Err(not("sorted, but ordered: its elements stay where they are put")),
        }
    };
}

/// A list in which C places the elements.
macro_rules! ordered {
    ($body:expr, $list:ident => $work:expr) => {
        match $body {
            Body::Ordered($list) => $work,
            _ => return Err(not("ordered, but sorted: its elements have their places")),
        }
    };
}

fn not(what: &str) -> Failure {
    Failure::new(Code::Kind, format!("the list is not {what}"))
}

fn none() -> Failure {
    Code::NoElement.into()
}

/// An error if nothing was found.
fn some<T>(found: Option<T>) -> Result<T, Failure> {
    found.ok_or_else(none)
}

impl<E: ?Sized + Item> Of<E> {
    fn new(session: &'static Session<'static>, settled: &Settled) -> Self {
        fn with<E: ?Sized + Item, C>(
            mut list: SlabList<'static, E, C>,
            settled: &Settled,
        ) -> SlabList<'static, E, C> {
            list = list.packing(settled.packing);
            if settled.flags & MANY != 0 {
                list = list.many();
            }
            if settled.flags & CIRCULAR != 0 {
                list = list.circular();
            }
            if let Some(elements) = settled.per_slab {
                list = list.per_slab(elements);
            }
            if let Some(leaves) = settled.per_sublayer {
                list = list.per_sublayer(leaves);
            }
            match &settled.name {
                Some(name) => list.named(name),
                None => list,
            }
        }
        let body = match settled.by {
            _ if settled.flags & ORDERED != 0 => Body::Ordered(with(SlabList::ordered(session), settled)),
            Some(by) => Body::By(with(SlabList::by(session, by), settled)),
            None => Body::Natural(with(SlabList::new(session), settled)),
        };
        let name = settled.name.as_ref().and_then(|name| CString::new(name.as_str()).ok());
        Of { kind: settled.kind, order: Order(settled.by), body, cursors: BTreeMap::new(), name }
    }

    fn cursor(&self, cursor: u64) -> Result<Cursor, Failure> {
        self.cursors.get(&cursor).copied().ok_or_else(|| Code::NoList.into())
    }
}

impl<E: ?Sized + Item> AnyList for Of<E> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn name(&self) -> Option<&CString> {
        self.name.as_ref()
    }

    fn len(&self) -> u64 {
        any!(&self.body, list => list.len())
    }

    fn own_bytes(&self) -> usize {
        size_of::<Self>() + any!(&self.body, list => list.own_bytes())
    }

    fn check(&self) -> Result<(), Failure> {
        let checked = match &self.body {
            Body::Natural(list) => list.check(),
            Body::By(list) => list.check(),
            Body::Ordered(list) => list.check_leaves(),
        };
        checked.map_err(|text| Failure::new(Code::Violation, text))
    }

    fn add(&mut self, element: &[u8]) -> Result<bool, Failure> {
        Ok(sorted!(&mut self.body, list => E::take(self.kind, element, |element| list.insert(element)))??)
    }

    fn replace(&mut self, element: &[u8]) -> Result<bool, Failure> {
        let old =
            sorted!(&mut self.body, list => E::take(self.kind, element, |element| list.replace(element)))??;
        Ok(old.is_some())
    }

    fn remove(&mut self, element: &[u8]) -> Result<bool, Failure> {
        let old =
            sorted!(&mut self.body, list => E::take(self.kind, element, |element| list.remove(element)))??;
        Ok(old.is_some())
    }

    fn contains(&self, element: &[u8]) -> Result<bool, Failure> {
        Ok(sorted!(&self.body, list => E::take(self.kind, element, |element| list.contains(element)))??)
    }

    fn find(&self, element: &[u8]) -> Result<u64, Failure> {
        some(sorted!(&self.body, list => E::take(self.kind, element, |element| list.find(element)))??)
    }

    fn bound(&self, element: &[u8], behind: bool) -> Result<u64, Failure> {
        let numbers = sorted!(&self.body, list => E::take(self.kind, element, |element| {
            let from = if behind { Bound::Excluded(element) } else { Bound::Included(element) };
            list.numbers((from, Bound::Unbounded))
        }))??;
        Ok(numbers.start)
    }

    fn insert_at(&mut self, position: u64, element: &[u8]) -> Result<(), Failure> {
        let list = ordered!(&mut self.body, list => list);
        let is = E::take(self.kind, element, |element| list.insert_at(position, element))??;
        if is { Ok(()) } else { Err(none()) }
    }

    fn set_at(&mut self, position: u64, element: &[u8]) -> Result<(), Failure> {
        let list = ordered!(&mut self.body, list => list);
        some(E::take(self.kind, element, |element| list.set_at(position, element))??).map(|_| ())
    }

    fn push(&mut self, element: &[u8]) -> Result<(), Failure> {
        let list = ordered!(&mut self.body, list => list);
        Ok(E::take(self.kind, element, |element| list.push(element))??)
    }

    fn sort(&mut self) -> Result<(), Failure> {
        let list = ordered!(&mut self.body, list => list);
        match &self.order.0 {
            Some(by) => list.sort_by(by)?,
            None => list.sort_by(&Natural)?,
        }
        Ok(())
    }

    fn reverse(&mut self) -> Result<(), Failure> {
        Ok(ordered!(&mut self.body, list => list.reverse())?)
    }

    fn get(&self, position: u64, room: &mut Room<'_>) -> Result<(), Failure> {
        let element = some(any!(&self.body, list => list.at(position))?)?;
        element.borrow().give(self.kind, |bytes| room.put(bytes))
    }

    fn remove_at(&mut self, position: u64) -> Result<(), Failure> {
        some(any!(&mut self.body, list => list.remove_at(position))?).map(|_| ())
    }

    fn remove_range(&mut self, from: u64, to: u64) -> Result<u64, Failure> {
        Ok(any!(&mut self.body, list => list.remove_slice(from..to))?)
    }

    fn extract(&mut self, from: u64, to: u64) -> Result<Box<dyn AnyList>, Failure> {
        let body = match &mut self.body {
            Body::Natural(list) => Body::Natural(list.extract_slice(from..to)?),
            Body::By(list) => Body::By(list.extract_slice(from..to)?),
            Body::Ordered(list) => Body::Ordered(list.extract_slice(from..to)?),
        };
        let (kind, order) = (self.kind, self.order);
        Ok(Box::new(Of { kind, order, body, cursors: BTreeMap::new(), name: None }))
    }

    fn fold(&self, from: u64, to: u64, backwards: bool, visit: Visit<'_>) -> Result<c_int, Failure> {
        let mut elements = any!(&self.body, list => list.slice(from..to));
        let mut next = || if backwards { elements.next_back() } else { elements.next() };
        while let Some(element) = next() {
            let said = element?.borrow().give(self.kind, &mut *visit);
            if said != 0 {
                return Ok(said);
            }
        }
        Ok(0)
    }

    fn compare(&self, other: &dyn AnyList) -> Result<Ordering, Failure> {
        let other = other.as_any().downcast_ref::<Self>().filter(|other| other.kind == self.kind);
        let other =
            other.ok_or_else(|| Failure::new(Code::Kind, "the lists have elements of different kinds"))?;
        let order = any!(&self.body, list => {
            any!(&other.body, other => list.compare_with(other, &self.order))
        });
        Ok(order?)
    }

    fn reap(&mut self) -> Result<usize, Failure> {
        Ok(any!(&mut self.body, list => list.reap())?)
    }

    fn clear(&mut self) -> Result<(), Failure> {
        Ok(any!(&mut self.body, list => list.clear())?)
    }

    fn cursor_new(&mut self, position: u64) -> Result<u64, Failure> {
        let cursor = some(any!(&mut self.body, list => list.cursor_at(position)))?;
        let number = serial();
        self.cursors.insert(number, cursor);
        Ok(number)
    }

    fn cursor_free(&mut self, cursor: u64) -> Result<(), Failure> {
        let cursor = self.cursors.remove(&cursor).ok_or(Code::NoList)?;
        any!(&mut self.body, list => list.drop_cursor(cursor));
        Ok(())
    }

    fn cursor_position(&self, cursor: u64) -> Result<u64, Failure> {
        let cursor = self.cursor(cursor)?;
        some(any!(&self.body, list => list.number_of(cursor)))
    }

    fn cursor_move(&mut self, cursor: u64, backwards: bool) -> Result<(), Failure> {
        let cursor = self.cursor(cursor)?;
        let element = any!(&mut self.body, list => {
            if backwards { list.previous(cursor) } else { list.next(cursor) }
        });
        some(element?).map(|_| ())
    }
}
