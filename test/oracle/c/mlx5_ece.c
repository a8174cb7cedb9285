/* SPDX-License-Identifier: Apache-2.0 */

/* Enhanced connection establishment. */
#define _GNU_SOURCE
#include <errno.h>

#include "mlx5.h"
#include "out.h"
#include "scenario.h"

#define VENDOR 0x15b3

static void query_ece(struct qp *q)
{
	struct ibv_ece e = {};
	int rc = ibv_query_ece(q->ibv, &e);

	rec("query_ece", NULL);
	out_str("qp", q->id);
	out_num("rc", rc);
	out_num("vendor", e.vendor_id);
	out_num("options", e.options);
	rec_end();
}

static void set_ece(struct qp *q, uint32_t vendor, uint32_t options)
{
	struct ibv_ece e = { .vendor_id = vendor, .options = options };
	int rc = ibv_set_ece(q->ibv, &e);

	rec("set_ece", NULL);
	out_str("qp", q->id);
	out_num("vendor", vendor);
	out_num("options", options);
	out_num("rc", rc);
	rec_end();
	query_ece(q);
}

static void move(struct qp *q, enum ibv_qp_state state)
{
	move_qp(q, state);
	query_ece(q);
}

/* The options that a peer may offer: those of the device, some of them, unknown ones, and none. */
static const uint32_t offers[] = { 0x10000005, 0x10000001, 0x1000000f, 0x10000000, 0x20000080, 0xffffffff, 0 };

void ece(void)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	struct cq *cq = make_cq(63);
	struct srq *srq = mlx5_srq(16, 3);
	struct ibv_qp_cap cap = { 16, 16, 3, 2, 0 };
	struct qp *q;

	for (unsigned t = 0; t < 3; t++)
		for (unsigned i = 0; i < sizeof(offers) / sizeof(*offers); i++) {
			q = mlx5_qp(types[t], cq, cq, NULL, cap, false);
			query_ece(q);
			/* The passive side has the offer before INIT, the active side before the second INIT. */
			if (i % 2)
				move(q, IBV_QPS_INIT);
			set_ece(q, VENDOR, offers[i]);
			move(q, IBV_QPS_INIT);
			move(q, IBV_QPS_RTR);
			move(q, IBV_QPS_RTS);
			move(q, IBV_QPS_RESET);
			move(q, IBV_QPS_INIT);
		}
	q = mlx5_qp(IBV_QPT_RC, cq, cq, NULL, cap, false);
	set_ece(q, 0x2c9, 0x10000005); /* another vendor */
	set_ece(q, VENDOR, 0x10000005);
	set_ece(q, VENDOR, 0x10000001); /* the last one counts */
	move(q, IBV_QPS_INIT);
	set_ece(q, VENDOR, 0x10000004);
	move(q, IBV_QPS_RTR);
	set_ece(q, VENDOR, 0x10000005);
	move(q, IBV_QPS_ERR);

	q = mlx5_qp_ex(IBV_QPT_DRIVER, cq, cq, srq, (struct ibv_qp_cap){}, &(struct qp_extra){ .dc = MLX5DV_DCTYPE_DCT, .dct_key = 1 });
	if (!q)
		return;
	query_ece(q);
	set_ece(q, VENDOR, 0x10000001);
	move(q, IBV_QPS_INIT);
	move(q, IBV_QPS_RTR);
}
