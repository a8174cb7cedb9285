/* SPDX-License-Identifier: Apache-2.0 */

/* The C side of the binding: set-up, the device, and the two calls, which are
 * static inline in verbs.h. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <endian.h>
#include <stdlib.h>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "fakeuv.h"

static struct fake_state *fake;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static void *data;
static uint32_t produced;
static uint16_t at;

static const char *setup(void)
{
	fake = dlsym(RTLD_DEFAULT, "fakeuv");
	if (!fake)
		return "the fake kernel is not loaded";
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	if (!ctx)
		return "no device";
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	data = aligned_alloc(4096, 4096);
	mr = ibv_reg_mr(pd, data, 4096, IBV_ACCESS_LOCAL_WRITE);
	cq = ibv_create_cq(ctx, 1023, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1024, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64 },
	};
	if (!mr || !cq || !(qp = ibv_create_qp(pd, &attr)))
		return "no QP";
	for (int s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		struct ibv_qp_attr a = { .qp_state = s };
		if (ibv_modify_qp(qp, &a, IBV_QP_STATE))
			return "modify";
	}
	return NULL;
}

static void complete(int n, int opcode, int blocks)
{
	uint32_t size = fake->cq[0].cqe + 1;
	struct mlx5_cqe64 *ring = (struct mlx5_cqe64 *)(uintptr_t)fake->cq[0].buf;

	for (int i = 0; i < n; i++) {
		struct mlx5_cqe64 *c = &ring[produced & (size - 1)];
		c->srqn_uidx = htobe32(fake->qp[0].uidx);
		c->sop_drop_qpn = htobe32((uint32_t)opcode << 24 | qp->qp_num);
		c->wqe_counter = htobe16(at);
		c->byte_cnt = 0;
		__atomic_store_n(&c->op_own, !!(produced & size), __ATOMIC_RELEASE);
		at += blocks;
		produced++;
	}
}

static uint64_t data_addr(void) { return (uintptr_t)data; }
static uint32_t data_lkey(void) { return mr->lkey; }
static int post_send(struct ibv_send_wr *w, struct ibv_send_wr **bad) { return ibv_post_send(qp, w, bad); }
static int poll_cq(int n, struct ibv_wc *wc) { return ibv_poll_cq(cq, n, wc); }
