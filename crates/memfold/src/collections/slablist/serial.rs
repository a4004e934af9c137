//! Lists as sequences of serde.
//!
//! [`Fill`] deserializes a sequence into a list. It needs a list to begin with, since lists need a session.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, SeqAccess, Visitor};
use serde::ser::{Error as _, Serialize, SerializeSeq, Serializer};

use super::format::Element;
use super::{Owned, SlabList};

impl<E: ?Sized + Element, C> Serialize for SlabList<'_, E, C>
where
    Owned<E>: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = serializer.serialize_seq(usize::try_from(self.len()).ok())?;
        for element in self {
            all.serialize_element(&element.map_err(S::Error::custom)?)?;
        }
        all.end()
    }
}

/// Adds the elements of a sequence to a list, with a function that adds one.
///
/// ```
/// # use memfold::collections::SlabList;
/// # use memfold::collections::slablist::Fill;
/// # use memfold::heap::{Heap, Options};
/// # let heap = Heap::new(Options::new())?;
/// # let session = heap.session()?;
/// use serde::de::DeserializeSeed;
///
/// let mut list = SlabList::new(&session);
/// list.extend([3u32, 1, 2])?;
/// let json = serde_json::to_string(&list)?;
/// assert_eq!(json, "[1,2,3]");
/// let mut again = SlabList::<u32>::new(&session);
/// Fill::new(|element: &u32| again.insert(element).map(|_| ()))
///     .deserialize(&mut serde_json::Deserializer::from_str(&json))?;
/// assert_eq!(again.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Fill<E: ?Sized, A> {
    add: A,
    element: PhantomData<fn(&E)>,
}

impl<E: ?Sized + Element, A: FnMut(&E) -> Result<(), crate::heap::Error>> Fill<E, A> {
    /// With a function that adds one element: for example `insert` or `push` of a list.
    pub fn new(add: A) -> Self {
        Fill { add, element: PhantomData }
    }
}

impl<'de, E, A> DeserializeSeed<'de> for Fill<E, A>
where
    E: ?Sized + Element,
    Owned<E>: Deserialize<'de>,
    A: FnMut(&E) -> Result<(), crate::heap::Error>,
{
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, E, A> Visitor<'de> for Fill<E, A>
where
    E: ?Sized + Element,
    Owned<E>: Deserialize<'de>,
    A: FnMut(&E) -> Result<(), crate::heap::Error>,
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence of elements")
    }

    fn visit_seq<S: SeqAccess<'de>>(mut self, mut sequence: S) -> Result<(), S::Error> {
        while let Some(element) = sequence.next_element::<Owned<E>>()? {
            (self.add)(element.borrow()).map_err(S::Error::custom)?;
        }
        Ok(())
    }
}
