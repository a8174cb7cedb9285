/* SPDX-License-Identifier: Apache-2.0 */

/* The fake rdma_rxe and siw: queues in memory of the kernel. */
#define _GNU_SOURCE
#include <rdma/rdma_user_rxe.h>
#include <rdma/siw-abi.h>
#include <string.h>

#include "kernel.h"

static uint32_t pow2(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p <<= 1;
	return p;
}

/* rxe rounds elements to a power of two of at least 64 bytes, and has a slot
 * more than requested. */
static uint64_t rxe_queue(uint32_t n, uint32_t elem, struct mminfo *mi)
{
	uint32_t size = pow2(elem < 64 ? 64 : elem), slots = pow2(n + 1);
	size_t len = (sizeof(struct rxe_queue_buf) + (size_t)size * slots + 4095) & ~4095ul;
	uint64_t offset;
	struct rxe_queue_buf *q = give_memory(len, &offset);

	q->log2_elem_size = __builtin_ctz(size);
	q->index_mask = slots - 1;
	mi->size = len;
	mi->offset = offset;
	mi->pad = 0;
	return (uintptr_t)q;
}

static void rxe_create_cq(struct call *c, struct fake_cq *q)
{
	struct rxe_create_cq_resp r;

	q->buf = rxe_queue(q->cqe, sizeof(struct ib_uverbs_wc), &r.mi);
	put(c, UVERBS_ATTR_UHW_OUT, &r, sizeof(r));
}

static void rxe_create_qp(struct call *c, struct fake_qp *q, struct ib_uverbs_qp_cap *cap, uint32_t type)
{
	struct rxe_create_qp_resp r = {};
	/* Elements and inline data share one area. */
	uint32_t room = cap->max_send_sge * sizeof(struct rxe_sge);

	(void)type;
	if (room < cap->max_inline_data)
		room = cap->max_inline_data;
	cap->max_send_sge = room / sizeof(struct rxe_sge);
	cap->max_inline_data = room;
	q->sq_map = rxe_queue(cap->max_send_wr, sizeof(struct rxe_send_wqe) + room, &r.sq_mi);
	if (cap->max_recv_wr)
		q->rq_map = rxe_queue(cap->max_recv_wr, sizeof(struct rxe_recv_wqe) + cap->max_recv_sge * sizeof(struct rxe_sge), &r.rq_mi);
	put(c, UVERBS_ATTR_UHW_OUT, &r, sizeof(r));
}

static void rxe_create_srq(struct call *c, struct fake_srq *q, uint32_t *wr, uint32_t *sge)
{
	struct rxe_create_srq_resp r = { .srq_num = q->srqn };

	q->map = rxe_queue(*wr, sizeof(struct rxe_recv_wqe) + *sge * sizeof(struct rxe_sge), &r.mi);
	put(c, UVERBS_ATTR_UHW_OUT, &r, sizeof(r));
}

static void rxe_create_ah(struct write_cmd *w)
{
	struct rxe_create_ah_resp r = { .ah_num = 0x77 };

	answer(w->drv_out, w->drv_out_len, &r, sizeof(r));
}

const struct driver_ops fakeuv_rxe = {
	.first_qpn = 17,
	.mapped_head = 8, /* the kernel's part of the header */
	.create_ah = rxe_create_ah,
	.create_cq = rxe_create_cq,
	.create_qp = rxe_create_qp,
	.create_srq = rxe_create_srq,
};

static void siw_get_context(struct call *c)
{
	struct siw_uresp_alloc_ctx r = {};

	put(c, UVERBS_ATTR_UHW_OUT, &r, sizeof(r));
}

static void siw_reg_mr(struct write_cmd *w, uint32_t key)
{
	struct siw_uresp_reg_mr r = { .stag = key };

	answer(w->drv_out, w->drv_out_len, &r, sizeof(r));
}

static void siw_create_cq(struct call *c, struct fake_cq *q)
{
	struct siw_uresp_create_cq r = { .cq_id = q->cqn };
	uint64_t key;

	r.num_cqe = pow2(q->cqe);
	q->cqe = r.num_cqe;
	q->buf = (uintptr_t)give_memory(r.num_cqe * sizeof(struct siw_cqe) + sizeof(struct siw_cq_ctrl), &key);
	r.cq_key = key;
	put(c, UVERBS_ATTR_UHW_OUT, &r, sizeof(r));
}

static void siw_create_qp(struct call *c, struct fake_qp *q, struct ib_uverbs_qp_cap *cap, uint32_t type)
{
	struct siw_uresp_create_qp r = { .qp_id = q->qpn };
	uint64_t key;

	(void)type;
	r.num_sqe = q->num_sqe = pow2(cap->max_send_wr);
	q->sq_map = (uintptr_t)give_memory(r.num_sqe * sizeof(struct siw_sqe), &key);
	r.sq_key = key;
	if (cap->max_recv_wr) {
		r.num_rqe = q->num_rqe = pow2(cap->max_recv_wr);
		q->rq_map = (uintptr_t)give_memory(r.num_rqe * sizeof(struct siw_rqe), &key);
		r.rq_key = key;
	}
	put(c, UVERBS_ATTR_UHW_OUT, &r, sizeof(r));
}

static void siw_create_srq(struct call *c, struct fake_srq *q, uint32_t *wr, uint32_t *sge)
{
	struct siw_uresp_create_srq r = {};
	uint64_t key;

	(void)sge;
	r.num_rqe = q->num_rqe = pow2(*wr);
	q->map = (uintptr_t)give_memory(r.num_rqe * sizeof(struct siw_rqe), &key);
	r.srq_key = key;
	put(c, UVERBS_ATTR_UHW_OUT, &r, sizeof(r));
}

const struct driver_ops fakeuv_siw = {
	.first_qpn = 17,
	.any_device = true,
	.get_context = siw_get_context,
	.reg_mr = siw_reg_mr,
	.create_cq = siw_create_cq,
	.create_qp = siw_create_qp,
	.create_srq = siw_create_srq,
};
