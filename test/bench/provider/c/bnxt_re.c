/* SPDX-License-Identifier: Apache-2.0 */

/* The fake bnxt_re device of bench.c. */
#include <endian.h>

#include "bench.h"

enum { ENTRY = 8, COOKIE = 0, CONSUMED = 2, FLAGS = 6 }; /* words of a completion */

static uint32_t at;        /* entry of the next completion */
static uint32_t phase = 1; /* of this pass through the ring */
static uint32_t requests;  /* completed requests */

void complete_round(struct fake_state *fake, bool inlined)
{
	uint32_t n = fake->cq[0].cqe;
	uint32_t *ring = (uint32_t *)(uintptr_t)fake->cq[0].buf;
	struct fake_qp *qp = &fake->qp[0];

	(void)inlined;
	for (int i = 0; i < ROUND; i++) {
		uint32_t *c = &ring[at * ENTRY];
		requests = (requests + 1) % qp->num_sqe;
		c[COOKIE] = htole32(qp->db);
		c[COOKIE + 1] = htole32(qp->db >> 32);
		c[CONSUMED] = htole32(requests);
		__atomic_store_n(&c[FLAGS], htole32(phase), __ATOMIC_RELEASE);
		if (++at == n) {
			at = 0;
			phase ^= 1;
		}
	}
}
