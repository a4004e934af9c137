//! A panic goes no further than the function that C called.

use std::ffi::CStr;
use std::ptr;
use std::thread;

use crate::entry::{attempt, callback};
use crate::error::{Code, memfold_last_error};
use crate::heap::*;
use crate::session::lists::*;
use crate::session::node::*;
use crate::session::pin::*;
use crate::session::*;

fn last_error() -> String {
    // SAFETY: a null-terminated text, which stays valid until the next failure.
    unsafe { CStr::from_ptr(memfold_last_error()) }.to_str().unwrap().to_owned()
}

fn heap() -> *mut memfold_heap {
    let mut heap = ptr::null_mut();
    // SAFETY: no options, and a place for the heap.
    assert_eq!(unsafe { memfold_heap_new(ptr::null(), &mut heap) }, 0);
    heap
}

fn session(heap: *mut memfold_heap) -> *mut memfold_session {
    let mut session = ptr::null_mut();
    // SAFETY: a place for the session.
    assert_eq!(unsafe { memfold_session_open(heap, &mut session) }, 0);
    session
}

/// A list that has nodes in the heap.
fn list(session: *mut memfold_session) -> *mut memfold_slablist {
    let mut list = ptr::null_mut();
    // SAFETY: no options, and a place for the list.
    assert_eq!(unsafe { memfold_slablist_new(session, ptr::null(), &mut list) }, 0);
    for number in 0..1000 {
        // SAFETY: the last pointer may be null.
        assert_eq!(unsafe { memfold_slablist_add_u64(list, number, ptr::null_mut()) }, 0);
    }
    list
}

#[test]
fn a_heap_in_which_there_was_a_panic_is_not_touched_again() {
    let (broken, whole) = (heap(), heap());
    let (one, other) = (session(broken), session(whole));
    let (mut node, mut bytes) = (0, ptr::null());
    // SAFETY: all pointers point to places for the results.
    unsafe {
        assert_eq!(memfold_alloc(one, 100, &mut node), 0);
        assert_eq!(memfold_pin(one, node, &mut bytes), 0);
    }
    let (list, freed) = (list(one), list(one));
    assert_eq!(memfold_slablist_free(freed), 0);
    let bug = Code::Bug as i32;
    let broken_address = broken.addr();
    thread::spawn(move || {
        let another = session(ptr::without_provenance_mut(broken_address));
        assert_eq!(in_session(another, |_| panic!("as the test wants it")), bug);
        assert!(last_error().contains("as the test wants it"), "{}", last_error());
        assert_eq!(memfold_session_close(another), 0);
    })
    .join()
    .unwrap();
    // SAFETY: as above.
    unsafe {
        assert_eq!(memfold_alloc(one, 100, &mut node), bug);
        assert_eq!(memfold_size(one, node, &mut 0), bug);
        assert_eq!(memfold_slablist_add_u64(list, 1, ptr::null_mut()), bug);
        assert_eq!(memfold_slablist_new(one, ptr::null(), &mut ptr::null_mut()), bug);
        assert_eq!(memfold_heap_stats(broken, &mut memfold_stats::default(), 8), bug);
        assert_eq!(memfold_session_open(broken, &mut ptr::null_mut()), bug);
        // The pinned node is still there, and another heap is unaffected.
        assert_eq!(bytes.cast::<u8>().read(), 0);
        assert_eq!(memfold_alloc(other, 100, &mut node), 0);
    }
    assert_eq!(memfold_slablist_free(list), bug);
    assert_eq!(memfold_heap_check(broken), bug);
    assert_eq!(memfold_heap_destroy(broken), Code::Open as i32);
    assert_eq!(memfold_session_close(one), 0);
    assert_eq!(memfold_heap_destroy(broken), 0);
    assert_eq!(memfold_heap_destroy(broken), Code::NoHeap as i32);
    assert_eq!(memfold_session_close(other), 0);
    assert_eq!(memfold_heap_check(whole), 0);
    assert_eq!(memfold_heap_destroy(whole), 0);
}

#[test]
fn panics_may_carry_any_value() {
    struct Worse;
    impl Drop for Worse {
        fn drop(&mut self) {
            panic!("again");
        }
    }
    let caught = attempt::<()>(|| std::panic::panic_any(Worse)).unwrap_err();
    assert_eq!(caught.code, Code::Bug);
}

#[test]
fn callbacks_cannot_come_in_again() {
    let heap = heap();
    let one = session(heap);
    let refused = Code::Callback as i32;
    callback(|| {
        // SAFETY: all pointers point to places for the results.
        unsafe {
            assert_eq!(memfold_alloc(one, 1, &mut 0), refused);
            assert_eq!(memfold_heap_new(ptr::null(), &mut ptr::null_mut()), refused);
            assert_eq!(memfold_heap_stats(heap, &mut memfold_stats::default(), 8), refused);
        }
        // A callback within a callback ends, and the outer one continues.
        callback(|| ());
        assert_eq!(memfold_session_close(one), refused);
        assert_eq!(crate::compll::compll_alloc(8), 0);
        assert!(last_error().contains("callback"), "{}", last_error());
    });
    assert_eq!(memfold_session_close(one), 0);
    assert_eq!(memfold_heap_destroy(heap), 0);
}
