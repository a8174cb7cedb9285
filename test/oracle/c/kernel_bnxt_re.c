/* SPDX-License-Identifier: Apache-2.0 */

/* The fake bnxt_re: queues in memory of the provider, and one page of doorbells. FAKEUV_CHIP selects the generation of
 * the chip, and after a comma a feature. */
#define _GNU_SOURCE
#include <errno.h>
#include <rdma/bnxt_re-abi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

enum { PAGE = 4096, MAX_CQE = 8191, MAX_WR = 4096 };

/* Newer headers than those of Debian 12 have these. */
enum {
	WC_DPI_ENABLED = 0x4,
	DBR_PACING_ENABLED = 0x8,
	POW2_DISABLED = 0x10,
	MSN_TABLE_ENABLED = 0x40,
	REQ_POW2_SUPPORT = 1,
	REQ_VAR_WQE_SUPPORT = 2,
	TOGGLE_PAGE_SUPPORT = 1,
	OBJECT_ALLOC_PAGE = 0x1000,
	OBJECT_GET_TOGGLE_MEM = 0x1002,
	PAGE_HANDLE = 0x1000,
	PAGE_TYPE,
	PAGE_DPI,
	PAGE_OFFSET,
	PAGE_LENGTH,
	TOGGLE_HANDLE = 0x1000,
	TOGGLE_TYPE,
	TOGGLE_RES_ID,
	TOGGLE_PAGE,
	TOGGLE_OFFSET,
	TOGGLE_LENGTH,
	ALLOC_WC_PAGE = 0,
	ALLOC_DBR_BAR_PAGE,
	ALLOC_DBR_PAGE,
};

/* Newer forms of the responses. */
struct cq_resp {
	uint32_t cqid, tail, phase, rsvd;
	uint64_t comp_mask;
};
struct srq_resp {
	uint32_t srqid, rsvd;
	uint64_t comp_mask;
};
struct qp_req {
	uint64_t qpsva, qprva, qp_handle, comp_mask;
	uint32_t sq_slots, rsvd;
};

static uint8_t *shared;
static bool any_size, variable;

static bool chip(const char *feature)
{
	const char *v = getenv("FAKEUV_CHIP");

	return v && strstr(v, feature);
}

static uint32_t depth(uint32_t n)
{
	uint32_t p = 1;

	if (any_size)
		return n;
	while (p < n)
		p <<= 1;
	return p;
}

static void get_context(struct call *c)
{
	struct bnxt_re_uctx_resp r = {
		.dev_id = 1, .max_qp = 4096, .pg_size = PAGE, .cqe_sz = 32, .max_cqd = MAX_CQE, .comp_mask = 1,
		.chip_id0 = chip("p4") ? 0x16d7 : chip("p5") ? 0x1750 : 0x1760,
	};
	uint64_t want = 0;

	get(c, UVERBS_ATTR_UHW_IN, &want, sizeof(want));
	if (want & REQ_POW2_SUPPORT && !chip("pow2")) {
		r.comp_mask |= POW2_DISABLED;
		any_size = true;
	}
	if (want & REQ_VAR_WQE_SUPPORT) {
		r.comp_mask |= 2;
		r.mode = variable = chip("p7");
	}
	if (chip("push"))
		r.comp_mask |= WC_DPI_ENABLED;
	if (chip("paced"))
		r.comp_mask |= DBR_PACING_ENABLED;
	if (chip("msn") || chip("p7"))
		r.comp_mask |= MSN_TABLE_ENABLED;
	put(c, UVERBS_ATTR_UHW_OUT, &r, sizeof(r));
}

static void query_device(struct write_cmd *w)
{
	struct ib_uverbs_query_device_resp *b = w->resp;

	b->max_sge = variable ? 13 : 6;
	b->max_qp_wr = MAX_WR;
	b->max_srq_wr = MAX_WR;
	b->max_srq_sge = 6;
	b->max_cqe = MAX_CQE;
	answer(w->drv_out, w->drv_out_len, "", 0);
}

static void alloc_pd(struct write_cmd *w)
{
	struct bnxt_re_pd_resp r = { .pdid = 5, .dpi = 7 };
	uint64_t offset;

	give_memory(PAGE, &offset);
	r.dbr = offset;
	answer(w->drv_out, w->drv_out_len, &r, sizeof(r));
}

static void create_ah(struct write_cmd *w)
{
	static uint32_t num = 0x7700;

	(void)w;
	num++;
	memcpy(shared + BNXT_RE_AVID_OFFT, &num, sizeof(num));
}

static void create_cq(struct call *c, struct fake_cq *q)
{
	struct bnxt_re_cq_req u;
	struct cq_resp r = { .cqid = q->cqn, .phase = 1 };

	get(c, UVERBS_ATTR_UHW_IN, &u, sizeof(u));
	q->buf = u.cq_va;
	q->cqe = depth(q->cqe + 1);
	if (q->cqe > MAX_CQE + 1)
		q->cqe = MAX_CQE + 1;
	if (!chip("p4"))
		r.comp_mask = TOGGLE_PAGE_SUPPORT;
	put(c, UVERBS_ATTR_UHW_OUT, &r, sizeof(r));
}

static void resize_cq(struct write_cmd *w, struct fake_cq *q, uint32_t cqe)
{
	uint64_t va = 0;

	(void)cqe;
	memcpy(&va, w->drv_in, w->drv_in_len < sizeof(va) ? w->drv_in_len : sizeof(va));
	q->db = va; /* until the old ring has ended */
}

/* libbnxt_re 56 does not initialize the end of this input. Zeros make the log constant. */
static void clear_rest(struct call *c)
{
	for (int i = 0; i < c->hdr->num_attrs; i++) {
		struct ib_uverbs_attr *a = &c->hdr->attrs[i];
		struct qp_req *u = (void *)(uintptr_t)a->data;

		if (a->attr_id != UVERBS_ATTR_UHW_IN || a->len < sizeof(*u))
			continue;
		u->comp_mask = u->rsvd = 0;
		if (!variable)
			u->sq_slots = 0;
	}
}

static void create_qp(struct call *c, struct fake_qp *q, struct ib_uverbs_qp_cap *cap, uint32_t type)
{
	struct qp_req u;
	struct bnxt_re_qp_resp r = { .qpid = q->qpn };
	uint32_t sge = variable ? cap->max_recv_sge : 6;

	(void)type;
	clear_rest(c);
	get(c, UVERBS_ATTR_UHW_IN, &u, sizeof(u));
	q->sq_buf = u.qpsva;
	q->buf = u.qprva;
	q->db = u.qp_handle;
	q->num_sqe = depth(cap->max_send_wr + 1 + 128);
	q->sq_wqe_count = 8 * q->num_sqe;
	if (variable)
		q->num_sqe = q->sq_wqe_count = u.sq_slots;
	q->rq_wqe_count = depth(cap->max_recv_wr + 1);
	q->rq_wqe_shift = 2 + sge; /* slots */
	put(c, UVERBS_ATTR_UHW_OUT, &r, sizeof(r));
}

static void create_srq(struct call *c, struct fake_srq *q, uint32_t *wr, uint32_t *sge)
{
	struct bnxt_re_srq_req u;
	struct srq_resp r = { .srqid = q->srqn };

	(void)sge;
	get(c, UVERBS_ATTR_UHW_IN, &u, sizeof(u));
	q->buf = u.srqva;
	q->wr = depth(*wr + 1);
	if (!chip("p4"))
		r.comp_mask = TOGGLE_PAGE_SUPPORT;
	put(c, UVERBS_ATTR_UHW_OUT, &r, sizeof(r));
}

static int alloc_page(struct call *c)
{
	uint64_t type, offset;
	uint32_t len = PAGE, dpi = 0x123;

	get(c, PAGE_TYPE, &type, sizeof(type));
	if (type == ALLOC_WC_PAGE)
		give_memory(PAGE, &offset);
	else
		give_readable(PAGE, &offset);
	put(c, PAGE_OFFSET, &offset, sizeof(offset));
	put(c, PAGE_LENGTH, &len, sizeof(len));
	put(c, PAGE_DPI, &dpi, sizeof(dpi));
	put_handle(c, PAGE_HANDLE, new_handle());
	return 0;
}

static int get_toggle(struct call *c)
{
	uint64_t offset;
	uint32_t len = PAGE, at = 0;

	give_readable(PAGE, &offset);
	put(c, TOGGLE_PAGE, &offset, sizeof(offset));
	put(c, TOGGLE_LENGTH, &len, sizeof(len));
	put(c, TOGGLE_OFFSET, &at, sizeof(at));
	put_handle(c, TOGGLE_HANDLE, new_handle());
	return 0;
}

static int own_object(struct call *c)
{
	switch (c->hdr->object_id) {
	case OBJECT_ALLOC_PAGE:
		return alloc_page(c);
	case OBJECT_GET_TOGGLE_MEM:
		return get_toggle(c);
	}
	return EPROTONOSUPPORT;
}

/* The shared page has the offset 0. */
static void *own_mmap(uint64_t offset, size_t len)
{
	uint64_t unused;

	if (offset)
		return NULL;
	return shared = give_readable(len, &unused);
}

const struct driver_ops fakeuv_bnxt_re = {
	.first_qpn = 0x0abc7e,
	.get_context = get_context,
	.query_device = query_device,
	.alloc_pd = alloc_pd,
	.create_ah = create_ah,
	.create_cq = create_cq,
	.resize_cq = resize_cq,
	.create_qp = create_qp,
	.create_srq = create_srq,
	.own_object = own_object,
	.own_mmap = own_mmap,
};
