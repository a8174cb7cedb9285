/* SPDX-License-Identifier: Apache-2.0 */

/* Completions: the entries of the device, and the library's results. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mlx5.h"
#include "out.h"

struct cqe requester(struct qp *q, uint32_t wqe, int mlx_opcode, uint32_t bytes)
{
	struct cqe e = { .of = q->id };

	e.c.sop_drop_qpn = htobe32((uint32_t)mlx_opcode << 24 | q->ibv->qp_num);
	e.c.wqe_counter = htobe16(wqe);
	e.c.srqn_uidx = htobe32(q->k->uidx);
	e.c.byte_cnt = htobe32(bytes);
	e.c.op_own = MLX5_CQE_REQ << 4;
	return e;
}

struct cqe responder(struct qp *q, int opcode, uint32_t slot, uint32_t bytes)
{
	struct cqe e = { .of = q->id };

	e.c.sop_drop_qpn = htobe32(q->ibv->qp_num);
	e.c.wqe_counter = htobe16(slot);
	e.c.srqn_uidx = htobe32(q->k->uidx);
	e.c.byte_cnt = htobe32(bytes);
	e.c.flags_rqpn = htobe32(0x777);
	e.c.op_own = opcode << 4;
	return e;
}

/* The vendor's syndrome and the syndrome are the bytes 54 and 55. */
struct cqe failed(struct qp *q, int opcode, uint32_t wqe, int mlx_opcode, uint8_t syndrome, uint8_t vendor)
{
	struct cqe e = requester(q, wqe, mlx_opcode, 0);
	uint8_t *b = (uint8_t *)&e.c;

	b[54] = vendor;
	b[55] = syndrome;
	e.c.op_own = opcode << 4;
	return e;
}

/* The owner bit alternates with the device's passes around the ring. */
static void put_cqe(struct cq *c, struct cqe *e)
{
	uint32_t n = c->k->cqe + 1, size = c->k->cqe_size;

	e->c.op_own = (e->c.op_own & 0xfe) | !!(c->pi & n);
	memcpy((uint8_t *)c->k->buf + (size_t)(c->pi & (n - 1)) * size, e->raw + 128 - size, size);
	c->pi++;
}

void add(struct cq *c, struct cqe *e)
{
	put_cqe(c, e);
	out_open(NULL, '{');
	if (e->of)
		out_str("of", e->of);
	out_num("slot", (c->pi - 1) & c->k->cqe);
	out_hex("bytes", e->raw + 128 - c->k->cqe_size, c->k->cqe_size);
	out_close('}');
}

/* The extended interface: the accessors for which the CQ was created. */
static void print_ex(struct cq *c)
{
	struct ibv_cq_ex *x = c->ex;
	unsigned int flags;

	out_open(NULL, '{');
	out_u64("id", x->wr_id);
	out_u64("status", x->status);
	if (x->status != IBV_WC_SUCCESS) {
		out_u64("vendor_err", ibv_wc_read_vendor_err(x));
		out_close('}');
		return;
	}
	out_u64("opcode", ibv_wc_read_opcode(x));
	flags = ibv_wc_read_wc_flags(x);
	out_u64("flags", flags);
	if (c->wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		out_u64("byte_len", ibv_wc_read_byte_len(x));
	if (c->wc_flags & IBV_WC_EX_WITH_QP_NUM)
		out_u64("qpn", ibv_wc_read_qp_num(x));
	if (c->wc_flags & IBV_WC_EX_WITH_SRC_QP)
		out_u64("src_qp", ibv_wc_read_src_qp(x));
	if (c->wc_flags & IBV_WC_EX_WITH_SLID)
		out_u64("slid", ibv_wc_read_slid(x));
	if (c->wc_flags & IBV_WC_EX_WITH_SL)
		out_u64("sl", ibv_wc_read_sl(x));
	if (c->wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		out_u64("path_bits", ibv_wc_read_dlid_path_bits(x));
	if (c->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		out_u64("ts", ibv_wc_read_completion_ts(x));
	if (c->wc_flags & IBV_WC_EX_WITH_CVLAN)
		out_u64("cvlan", ibv_wc_read_cvlan(x));
	if (c->wc_flags & IBV_WC_EX_WITH_FLOW_TAG)
		out_u64("flow_tag", ibv_wc_read_flow_tag(x));
	if (flags & IBV_WC_WITH_IMM)
		out_u64("imm", be32toh(ibv_wc_read_imm_data(x)));
	if (flags & IBV_WC_WITH_INV)
		out_u64("inv", ibv_wc_read_invalidated_rkey(x));
	out_close('}');
}

static int poll_ex(struct cq *c, int max)
{
	struct ibv_poll_cq_attr a = {};
	int n = 0, rc = ibv_start_poll(c->ex, &a);

	out_open("wcs", '[');
	if (!rc) {
		do {
			print_ex(c);
			rc = ++n < max ? ibv_next_poll(c->ex) : ENOENT;
		} while (!rc);
		ibv_end_poll(c->ex);
	}
	out_close(']');
	return n || rc == ENOENT ? n : -1;
}

static int poll_plain(struct cq *c, int max)
{
	static struct ibv_wc wc[MAX_LIST];
	int n;

	memset(wc, POISON, sizeof(wc));
	n = ibv_poll_cq(c->ibv, max, wc);
	out_open("wcs", '[');
	for (int i = 0; i < n; i++)
		print_wc(&wc[i]);
	out_close(']');
	return n;
}

void poll(const char *name, struct cq *c, struct cqe *e, int n, int max, uint32_t at, uint32_t mem)
{
	rec("poll", name);
	out_str("cq", c->id);
	out_open("cqes", '[');
	for (int i = 0; i < n; i++)
		add(c, &e[i]);
	out_close(']');
	out_num("max", max);
	if (mem)
		memset(DATA + at, 0, mem);
	out_num("n", c->ex ? poll_ex(c, max) : poll_plain(c, max));
	out_num("ci", be32toh(*(uint32_t *)c->k->db));
	if (mem) {
		out_open("mem", '{');
		out_u64("addr", (uintptr_t)DATA + at);
		out_hex("bytes", DATA + at, mem);
		out_close('}');
	}
	rec_end();
}

void many(const char *name, struct qp *q, uint64_t count, int list, struct ibv_send_wr *wr, int mlx_opcode)
{
	static struct ibv_send_wr w[MAX_LIST];
	static struct ibv_wc wc[MAX_LIST];
	struct cqe e = requester(q, 0, mlx_opcode, 0);
	struct ibv_send_wr *bad;

	rec("many", name);
	out_str("qp", q->id);
	out_u64("count", count);
	out_num("list", list);
	out_num("mlx_opcode", mlx_opcode);
	out_open("wrs", '[');
	print_send_wr(wr, NULL);
	out_close(']');
	for (int i = 0; i < list; i++) {
		w[i] = *wr;
		w[i].next = i + 1 < list ? &w[i + 1] : NULL;
	}
	for (uint64_t left = count; left;) {
		int n = left < (uint64_t)list ? (int)left : list;
		uint16_t at[MAX_LIST];

		w[n - 1].next = NULL;
		for (int i = 0; i < n; i++)
			at[i] = q->sq_pos + i; /* one slot each */
		if (ibv_post_send(q->ibv, w, &bad))
			DIE("ibv_post_send");
		q->sq_pos += n;
		for (int i = 0; i < n; i++) {
			e.c.wqe_counter = htobe16(at[i]);
			put_cqe(q->scq, &e);
		}
		for (int got = 0; got < n;) {
			int k = ibv_poll_cq(q->scq->ibv, MAX_LIST, wc);

			if (k <= 0)
				DIE("ibv_poll_cq: %d", k);
			got += k;
		}
		left -= n;
	}
	done(q);
	out_num("db", be32toh(((uint32_t *)q->k->db)[1]));
	out_num("ci", be32toh(*(uint32_t *)q->scq->k->db));
	rec_end();
}

void many_receives(const char *name, struct srq *s, struct qp *q, uint64_t count, int list, struct ibv_recv_wr *wr)
{
	static struct ibv_recv_wr w[MAX_LIST];
	static struct ibv_wc wc[MAX_LIST];
	struct ibv_recv_wr *bad;

	rec("many", name);
	out_str("on", s->id);
	out_str("qp", q->id);
	out_str("cq", q->rcq->id);
	out_u64("count", count);
	out_num("list", list);
	wr->next = NULL;
	print_recv_wrs(wr);
	for (uint64_t left = count; left;) {
		int n = left < (uint64_t)list ? (int)left : list;

		for (int i = 0; i < n; i++) {
			w[i] = *wr;
			w[i].wr_id += i;
			w[i].next = i + 1 < n ? &w[i + 1] : NULL;
		}
		if (ibv_post_srq_recv(s->ibv, w, &bad))
			DIE("ibv_post_srq_recv");
		for (int i = 0; i < n; i++) { /* the device takes them along the list */
			const uint8_t *slot = (uint8_t *)s->k->buf + s->pos * s->stride;
			struct cqe e = responder(q, MLX5_CQE_RESP_SEND, s->pos, 0);

			put_cqe(q->rcq, &e);
			s->pos = slot[2] << 8 | slot[3];
		}
		if (ibv_poll_cq(q->rcq->ibv, MAX_LIST, wc) != n)
			DIE("ibv_poll_cq");
		for (int i = 0; i < n; i++)
			if (wc[i].status || wc[i].wr_id != w[i].wr_id)
				DIE("completion of %d, status %d", (int)wc[i].wr_id, wc[i].status);
		left -= n;
	}
	out_num("db", be32toh(*(uint32_t *)s->k->db));
	out_num("ci", be32toh(*(uint32_t *)q->rcq->k->db));
	rec_end();
}

/* The device ends the old buffer with a special completion. */
static struct cq *resizing;

static void end_old_buffer(uint32_t handle)
{
	struct cqe e = {};

	if (handle != resizing->k->handle)
		return;
	e.c.op_own = MLX5_CQE_RESIZE_CQ << 4;
	put_cqe(resizing, &e);
}

void resize(struct cq *c, int cqe)
{
	int rc;

	resizing = c;
	fake->on_resize = end_old_buffer;
	rc = ibv_resize_cq(c->ibv, cqe);
	fake->on_resize = NULL;
	rec("resize", NULL);
	out_str("cq", c->id);
	out_num("cqe", cqe);
	out_num("rc", rc);
	out_num("got", c->ibv->cqe);
	out_num("ci", be32toh(*(uint32_t *)c->k->db));
	rec_end();
}

void arm(struct cq *c, int solicited)
{
	uint32_t *db = (uint32_t *)c->k->db;

	poison_pages();
	ibv_req_notify_cq(c->ibv, solicited);
	rec("arm", NULL);
	out_str("cq", c->id);
	out_num("solicited", solicited);
	out_num("ci", be32toh(db[0]));
	out_num("arm", be32toh(db[1]));
	print_pages();
	rec_end();
}
