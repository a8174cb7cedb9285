/* SPDX-License-Identifier: Apache-2.0 */

/* The fake erdma device of bench.c. */
#include <endian.h>

#include "bench.h"

enum { ENTRY = 8 }; /* words of a completion */
enum { OP_WRITE = 0, OP_SEND = 2 };

static uint32_t produced; /* completions */
static uint16_t at;       /* basic block of the next request to complete */

void complete_round(struct fake_state *fake, bool inlined)
{
	uint32_t n = fake->cq[0].cqe;
	uint32_t *ring = (uint32_t *)(uintptr_t)fake->cq[0].buf;

	for (int i = 0; i < ROUND; i++) {
		uint32_t *c = &ring[(produced & (n - 1)) * ENTRY];
		uint32_t owner = !(produced & n);
		c[1] = htobe32(at);
		c[2] = htobe32(fake->qp[0].qpn);
		__atomic_store_n(&c[0], htobe32(owner << 31 | (inlined ? OP_SEND : OP_WRITE) << 16), __ATOMIC_RELEASE);
		at += inlined ? 3 : 2;
		produced++;
	}
}
