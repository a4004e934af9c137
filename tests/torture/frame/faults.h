/*
 * SIGSEGV where it belongs.
 *
 * One handler serves the whole process. A thread that expects a fault says where; the handler then jumps
 * back, or repairs the protection and returns, so that the access is tried again. Any other SIGSEGV, and
 * every SIGBUS, is a failure that is reported with its address.
 */
#ifndef TORTURE_FAULTS_H
#define TORTURE_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Installs the handlers. */
void faults_install(void);

/* Whether an access of this kind faults, at exactly this address. */
bool faults_on_read(const void *at);
bool faults_on_write(void *at, uint8_t value);

/* Until faults_repair_end(), a fault in the range sets `protection` on its page, and the access continues. */
void faults_repair_begin(void *low, size_t length, int protection);
unsigned faults_repair_end(void);

#endif
