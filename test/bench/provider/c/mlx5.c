/* SPDX-License-Identifier: Apache-2.0 */

/* The fake ConnectX of bench.c. */
#include <endian.h>

#include <infiniband/mlx5dv.h>

#include "bench.h"

static uint32_t produced; /* completions */
static uint16_t at;       /* WQEBB of the next request to complete */

void complete_round(struct fake_state *fake, bool inlined)
{
	uint32_t n = fake->cq[0].cqe + 1;
	struct mlx5_cqe64 *ring = (struct mlx5_cqe64 *)(uintptr_t)fake->cq[0].buf;
	uint32_t op = inlined ? MLX5_OPCODE_SEND : MLX5_OPCODE_RDMA_WRITE;

	for (int i = 0; i < ROUND; i++) {
		struct mlx5_cqe64 *c = &ring[produced & (n - 1)];
		c->srqn_uidx = htobe32(fake->qp[0].uidx);
		c->sop_drop_qpn = htobe32(op << 24 | fake->qp[0].qpn);
		c->wqe_counter = htobe16(at);
		c->byte_cnt = 0;
		__atomic_store_n(&c->op_own, !!(produced & n), __ATOMIC_RELEASE);
		at += inlined ? 2 : 1;
		produced++;
	}
}
