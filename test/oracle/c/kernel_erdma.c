/* SPDX-License-Identifier: Apache-2.0 */

/* The fake erdma: queues in memory of the provider, and three pages of doorbells. */
#define _GNU_SOURCE
#include <rdma/erdma-abi.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

enum { PAGE = 4096, BLOCK = 32, BLOCKS_OF_REQUEST = 4 };

/* Values of sdb_type. Linux 6.1 assigned pages, entries of a page, and a page of all processes. Newer kernels report
 * a page. */
enum { SDB_PAGE, SDB_ENTRY, SDB_SHARED };

static uint32_t pow2(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p <<= 1;
	return p;
}

static void get_context(struct call *c)
{
	struct erdma_uresp_alloc_ctx r = { .dev_id = 0x107f, .sdb_type = SDB_PAGE };
	const char *kind = getenv("FAKEUV_SDB");
	uint64_t sdb, rdb, cdb;

	if (kind && !strcmp(kind, "entry")) {
		r.sdb_type = SDB_ENTRY;
		r.sdb_offset = 5;
	}
	if (kind && !strcmp(kind, "shared"))
		r.sdb_type = SDB_SHARED;
	give_memory(PAGE, &sdb);
	give_memory(PAGE, &rdb);
	give_memory(PAGE, &cdb);
	r.sdb = sdb;
	r.rdb = rdb;
	r.cdb = cdb;
	put(c, UVERBS_ATTR_UHW_OUT, &r, sizeof(r));
}

static void create_cq(struct call *c, struct fake_cq *q)
{
	struct erdma_ureq_create_cq u;
	struct erdma_uresp_create_cq r = { .cq_id = q->cqn };

	get(c, UVERBS_ATTR_UHW_IN, &u, sizeof(u));
	q->buf = u.qbuf_va;
	q->db = u.db_record_va;
	r.num_cqe = q->cqe = pow2(q->cqe);
	put(c, UVERBS_ATTR_UHW_OUT, &r, sizeof(r));
}

static void create_qp(struct call *c, struct fake_qp *q, struct ib_uverbs_qp_cap *cap, uint32_t type)
{
	struct erdma_ureq_create_qp u;
	struct erdma_uresp_create_qp r = { .qp_id = q->qpn };

	(void)type;
	get(c, UVERBS_ATTR_UHW_IN, &u, sizeof(u));
	r.num_sqe = q->sq_wqe_count = pow2(cap->max_send_wr * BLOCKS_OF_REQUEST);
	r.num_rqe = q->rq_wqe_count = pow2(cap->max_recv_wr);
	r.rq_offset = (r.num_sqe * BLOCK + PAGE - 1) & ~(PAGE - 1);
	q->sq_buf = u.qbuf_va;
	q->buf = u.qbuf_va + r.rq_offset;
	q->db = u.db_record_va;
	put(c, UVERBS_ATTR_UHW_OUT, &r, sizeof(r));
}

/* The numbers of the first QPs lie around a multiple of the number of doorbells in a page. */
const struct driver_ops fakeuv_erdma = {
	.first_qpn = 0x0abc7e,
	.get_context = get_context,
	.create_cq = create_cq,
	.create_qp = create_qp,
};
