//! Handlers: threads that read the messages of userfaultfd and serve the faults in them.
//!
//! There is one handler for every two CPUs (at most four). Each is bound to one CPU, because waking a thread
//! on the faulting CPU costs a quarter of what waking one elsewhere costs. Each waits for messages, takes the
//! order lock to read one, and serves it.

use core::sync::atomic::Ordering::*;

use crate::faults::serving::Server;
use crate::interpose::rights::credentials;
use crate::kernel::sched::{self, Binding};
use crate::kernel::sys::{self, PollFd};
use crate::kernel::uffd::Message;
use crate::memory::lock::Guard;
use crate::pages::events::order::{Fault, Order};
use crate::process::thread;
use crate::runtime::RUNTIME;

/// A handler thread.
struct Handler {
    server: Server,
    binding: Binding,
}

/// Entry of a handler thread; the argument is its number and its CPU.
pub extern "C" fn handler(argument: usize) -> ! {
    let (number, cpu) = (argument & 0xff, argument >> 8);
    // SAFETY: this is the only thread with this number.
    let Some(server) = (unsafe { Server::new(&RUNTIME, number) }) else {
        RUNTIME.fail("no memory is left for a fault handler");
    };
    let mut handler = Handler { server, binding: Binding::new(cpu) };
    handler.binding.bind(cpu);
    sched::shorten_slice();
    handler.run()
}

impl Handler {
    fn run(&mut self) -> ! {
        let runtime = self.server.runtime;
        loop {
            if runtime.threads.quit_handlers.load(Acquire) {
                runtime.threads.handlers.fetch_sub(1, AcqRel);
                thread::exit();
            }
            credentials::adopt();
            let mut order = runtime.lock_order();
            let Some(fault) = self.next_fault(&mut order) else {
                drop(order);
                self.sleep();
                continue;
            };
            if order.forking {
                self.server.serve_during_fork(&mut order, fault);
                continue;
            }
            runtime.faults.serving.fetch_add(1, SeqCst);
            drop(order);
            self.server.serve(fault);
            runtime.faults.serving.fetch_sub(1, SeqCst);
            // If only one thread faults, the next message hardly ever follows at once.
            if !runtime.faults.follow.is_spread() && runtime.faults.deferred.load(Acquire) == 0 {
                self.sleep();
            }
        }
    }

    /// Reads messages until one is a fault that may be served now.
    fn next_fault(&self, order: &mut Guard<'_, Order>) -> Option<Fault> {
        let runtime = self.server.runtime;
        // Applying an event may read further messages, and keep faults for later.
        loop {
            if let Some(fault) = runtime.next_kept(order) {
                return Some(fault);
            }
            if !order.may_read() {
                return None;
            }
            runtime.settle_late(order);
            match runtime.next_message() {
                Some(Message::Fault { page, touch, tid }) => {
                    runtime.faults.follow.note(tid);
                    return Some(Fault { page, touch });
                }
                Some(event) => runtime.apply(order, event),
                None => {
                    runtime.open_gate();
                    return None;
                }
            }
        }
    }

    /// Sleeps until there is a message or a wake-up call.
    fn sleep(&mut self) {
        let follow = &self.server.runtime.faults.follow;
        self.binding.bind(follow.cpu_for(self.server.worker.number, self.binding.own));
        let call = follow.call(self.server.worker.number);
        let mut fds = [
            PollFd { fd: call, events: 1, revents: 0 },
            PollFd { fd: self.server.runtime.uffd().0, events: 1, revents: 0 },
            PollFd { fd: self.server.runtime.forks.gate.fd(), events: 1, revents: 0 },
        ];
        let count = if follow.listens(self.server.worker.number) { 3 } else { 1 };
        let _ = sys::poll(&mut fds[..count], None);
        if fds[0].revents != 0 {
            let _ = sys::read(call, &mut [0; 8]);
        }
        credentials::adopt();
    }
}
