/* SPDX-License-Identifier: Apache-2.0 */

/* Every store to the UAR pages and to the doorbell record, in order. The pages are
 * protected. A store faults, runs as a single step, and is recorded. */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "out.h"
#include "rig.h"

#define PAGE 4096
#define TRAP_FLAG 0x100 /* of the x86 flags */

bool tracing;

static struct {
	uint8_t *page;
	uint64_t mmap; /* 0 for the doorbell record's */
} watched[4 * MAX_OBJECTS + 1];
static int nwatched;

static struct store {
	int page;
	uint32_t off, len;
	uint8_t bytes[64];
} stores[4096];
static int nstores;

static uintptr_t address, record;
static uint32_t record_width;
static uint8_t before[PAGE];

static void protect(int prot)
{
	for (int i = 0; i < nwatched; i++)
		mprotect(watched[i].page, PAGE, prot);
}

static int page_at(uintptr_t a)
{
	for (int i = 0; i < nwatched; i++)
		if (watched[i].page == (uint8_t *)(a & ~(uintptr_t)(PAGE - 1)))
			return i;
	return -1;
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	int i = page_at((uintptr_t)info->si_addr);

	if (i < 0) {
		signal(sig, SIG_DFL);
		return;
	}
	address = (uintptr_t)info->si_addr;
	protect(PROT_READ | PROT_WRITE);
	/* The pages of a UAR are only written: poison shows how wide. */
	if (watched[i].mmap)
		memset(watched[i].page, UAR_POISON, PAGE);
	memcpy(before, watched[i].page, PAGE);
	u->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void on_step(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	int i = page_at(address);
	uint32_t off = address % PAGE, end = off;
	struct store *s = &stores[nstores++];

	(void)sig;
	(void)info;
	for (uint32_t k = off; k < PAGE && k < off + sizeof(s->bytes); k++)
		if (watched[i].page[k] != before[k])
			end = k + 1;
	/* A byte with an unchanged value also counts. */
	if (watched[i].mmap)
		end = off + ((end - off + 7) & ~7u);
	else
		end = off + record_width;
	s->page = i;
	s->off = off;
	s->len = end - off;
	memcpy(s->bytes, watched[i].page + off, end - off);
	u->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	protect(PROT_NONE);
}

void trace_begin(uint64_t at, uint32_t width)
{
	struct sigaction fault = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	struct sigaction step = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };

	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGTRAP, &step, NULL);
	nwatched = nstores = 0;
	for (int i = 0; i < fake->nmap; i++) {
		if (fake->map[i].readable)
			continue;
		watched[nwatched].page = fake->map[i].addr;
		watched[nwatched++].mmap = fake->map[i].offset;
	}
	record = at;
	record_width = width;
	watched[nwatched].page = (uint8_t *)(record & ~(uintptr_t)(PAGE - 1));
	watched[nwatched++].mmap = 0;
	protect(PROT_NONE);
}

void trace_end(void)
{
	protect(PROT_READ | PROT_WRITE);
}

void trace_print(void)
{
	out_open("stores", '[');
	for (int i = 0; i < nstores; i++) {
		struct store *s = &stores[i];

		out_open(NULL, '{');
		if (watched[s->page].mmap) {
			out_u64("mmap", watched[s->page].mmap);
			out_num("at", s->off);
		} else {
			out_num("db", (int64_t)s->off - (int64_t)(record % PAGE));
		}
		out_hex("bytes", s->bytes, s->len);
		out_close('}');
	}
	out_close(']');
}
