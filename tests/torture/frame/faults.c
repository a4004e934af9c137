/* The SIGSEGV and SIGBUS handlers; see faults.h. */
#include "torture.h"

#include <setjmp.h>
#include <signal.h>

static __thread struct {
    volatile uintptr_t low, high;
    volatile sig_atomic_t jump;    /* leave by siglongjmp */
    volatile sig_atomic_t repaired;
    volatile int protection;
    sigjmp_buf back;
} expected;

static void on_fault(int signal, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr;
    (void)context;
    if (signal == SIGSEGV && at >= expected.low && at < expected.high) {
        if (expected.jump)
            siglongjmp(expected.back, 1);
        /* By the standard, mprotect is not async-signal-safe, but here it is a plain system call. */
        if (mprotect((void *)(at & ~(PAGE - 1)), PAGE, expected.protection) != 0)
            fail_errno("mprotect in the SIGSEGV handler at %p", info->si_addr);
        expected.repaired++;
        return;
    }
    char text[512] = "";
    describe_mapping(text, sizeof text, info->si_addr);
    fail("  %s (code %d) at address %p where no fault belongs (expected range %p-%p)\n%s",
         signal == SIGSEGV ? "SIGSEGV" : "SIGBUS", info->si_code, info->si_addr,
         (void *)expected.low, (void *)expected.high, text);
}

void faults_install(void)
{
    struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    sigemptyset(&action.sa_mask);
    must(sigaction(SIGSEGV, &action, NULL));
    must(sigaction(SIGBUS, &action, NULL));
}

/* Not inlined: no variable of the caller may be in a register across the jump back. */
static __attribute__((noinline)) bool faults_on(volatile uint8_t *at, bool write, uint8_t value)
{
    expected.low = (uintptr_t)at;
    expected.high = (uintptr_t)at + 1;
    expected.jump = 1;
    if (sigsetjmp(expected.back, 1) == 0) {
        if (write)
            *at = value;
        else
            (void)*at;
        expected.low = expected.high = 0;
        return false;
    }
    expected.low = expected.high = 0;
    return true;
}

bool faults_on_read(const void *at)
{
    return faults_on((volatile uint8_t *)(uintptr_t)at, false, 0);
}

bool faults_on_write(void *at, uint8_t value)
{
    return faults_on(at, true, value);
}

void faults_repair_begin(void *low, size_t length, int protection)
{
    expected.jump = 0;
    expected.repaired = 0;
    expected.protection = protection;
    expected.low = (uintptr_t)low;
    expected.high = (uintptr_t)low + length;
}

unsigned faults_repair_end(void)
{
    expected.low = expected.high = 0;
    return (unsigned)expected.repaired;
}
