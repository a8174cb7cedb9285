/* SPDX-License-Identifier: Apache-2.0 */

#define _GNU_SOURCE
#include "mlx5.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "out.h"

static int nqp, nxcq;

void wire(struct qp *q)
{
	struct fake_qp *k = q->k = &fake->qp[fake->nqp - 1];

	q->rq = (uint8_t *)k->buf;
	q->rq_slots = k->rq_wqe_count;
	q->rq_slot = 1u << k->rq_wqe_shift;
	q->sq = k->sq_buf ? (uint8_t *)k->sq_buf : q->rq + q->rq_slots * (size_t)q->rq_slot;
	q->sq_slots = k->sq_wqe_count;
	q->sq_slot = 64;
}

static const char *qp_type_name(enum ibv_qp_type t, const struct qp_extra *x)
{
	switch (t) {
	case IBV_QPT_RC:
		return "RC";
	case IBV_QPT_UC:
		return "UC";
	case IBV_QPT_UD:
		return "UD";
	case IBV_QPT_RAW_PACKET:
		return "RAW_PACKET";
	case IBV_QPT_XRC_SEND:
		return "XRC_SEND";
	case IBV_QPT_XRC_RECV:
		return "XRC_RECV";
	default:
		return x->dc == MLX5DV_DCTYPE_DCI ? "DCI" : "DCT";
	}
}

static struct qp *print_qp(struct ibv_qp *ibv, enum ibv_qp_type type, struct cq *scq, struct cq *rcq, struct srq *srq,
			   const struct ibv_qp_cap *ask, const struct ibv_qp_cap *got, bool sig_all, const struct qp_extra *x)
{
	struct qp *q = calloc(1, sizeof(*q));
	int err = errno;

	rec("qp", NULL);
	out_str("id", named(q->id, "qp", &nqp));
	out_str("type", qp_type_name(type, x));
	if (scq)
		out_str("scq", scq->id);
	if (rcq)
		out_str("rcq", rcq->id);
	if (srq)
		out_str("srq", srq->id);
	print_cap("cap", ask);
	out_num("sig_all", sig_all);
	if (x->tso_header)
		out_num("tso_header", x->tso_header);
	if (x->dv_flags)
		out_num("dv_flags", x->dv_flags);
	if (x->dc == MLX5DV_DCTYPE_DCT)
		out_u64("dct_key", x->dct_key);
	out_num("rc", ibv ? 0 : err);
	if (ibv) {
		print_cap("got_cap", got);
		out_num("qpn", ibv->qp_num);
	}
	rec_end();
	if (!ibv)
		return NULL;
	q->ibv = ibv;
	q->scq = scq;
	q->rcq = rcq;
	q->srq = srq;
	wire(q);
	return q;
}

struct qp *mlx5_qp(enum ibv_qp_type type, struct cq *scq, struct cq *rcq, struct srq *srq, struct ibv_qp_cap cap, bool sig_all)
{
	struct ibv_qp_init_attr a = {
		.send_cq = scq->ibv, .recv_cq = rcq->ibv, .srq = srq ? srq->ibv : NULL,
		.qp_type = type, .cap = cap, .sq_sig_all = sig_all,
	};
	struct ibv_qp *ibv = ibv_create_qp(pd, &a);

	return print_qp(ibv, type, scq, rcq, srq, &cap, &a.cap, sig_all, &(struct qp_extra){});
}

struct qp *mlx5_qp_ex(enum ibv_qp_type type, struct cq *scq, struct cq *rcq, struct srq *srq, struct ibv_qp_cap cap, const struct qp_extra *x)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = scq ? scq->ibv : NULL, .recv_cq = rcq ? rcq->ibv : NULL, .srq = srq ? srq->ibv : NULL,
		.qp_type = type, .cap = cap, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd,
	};
	struct mlx5dv_qp_init_attr dv = {};
	struct ibv_qp *ibv;

	if (x->xrcd) {
		a.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
		a.xrcd = x->xrcd;
		if (type == IBV_QPT_XRC_RECV)
			a.comp_mask &= ~IBV_QP_INIT_ATTR_PD;
	}
	if (x->tso_header) {
		a.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
		a.max_tso_header = x->tso_header;
	}
	if (x->send_ops) {
		a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		a.send_ops_flags = x->send_ops;
	}
	if (x->dv_send_ops) {
		dv.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
		dv.send_ops_flags = x->dv_send_ops;
	}
	if (x->dv_flags) {
		dv.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
		dv.create_flags = x->dv_flags;
	}
	if (x->dc) {
		dv.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_DC;
		dv.dc_init_attr.dc_type = x->dc;
		if (x->dc == MLX5DV_DCTYPE_DCT)
			dv.dc_init_attr.dct_access_key = x->dct_key;
	}
	ibv = dv.comp_mask ? mlx5dv_create_qp(ctx, &a, &dv) : ibv_create_qp_ex(ctx, &a);
	return print_qp(ibv, type, scq, rcq, srq, &cap, &a.cap, false, x);
}

struct cq *mlx5_cq_ex(int cqe, int wc_flags, int cqe_size, int compress)
{
	struct ibv_cq_init_attr_ex a = { .cqe = cqe, .wc_flags = wc_flags };
	struct mlx5dv_cq_init_attr dv = {};
	struct cq *c = calloc(1, sizeof(*c));

	if (cqe_size) {
		dv.comp_mask |= MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
		dv.cqe_size = cqe_size;
	}
	if (compress) {
		dv.comp_mask |= MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE;
		dv.cqe_comp_res_format = compress;
	}
	c->ex = dv.comp_mask ? mlx5dv_create_cq(ctx, &a, &dv) : ibv_create_cq_ex(ctx, &a);
	rec("cq", NULL);
	out_str("id", named(c->id, "cqx", &nxcq));
	out_num("cqe", cqe);
	out_num("ex", 1);
	out_u64("wc_flags", wc_flags);
	if (cqe_size)
		out_num("cqe_size", cqe_size);
	if (compress)
		out_num("compress", compress);
	out_num("rc", c->ex ? 0 : errno);
	if (c->ex)
		out_num("got", c->ex->cqe);
	rec_end();
	if (!c->ex)
		return NULL;
	c->ibv = ibv_cq_ex_to_cq(c->ex);
	c->wc_flags = wc_flags;
	c->k = &fake->cq[fake->ncq - 1];
	return c;
}

/* The control segment has the length, in units of 16 bytes, in its byte 7. */
uint32_t wqe_slots(struct qp *q, uint32_t at)
{
	return ((q->sq[at % q->sq_slots * 64 + 7] & 0x3f) + 3) / 4;
}

uint32_t last_wqe(struct qp *q, uint32_t from)
{
	uint32_t last = from;

	for (; from != q->sq_pos; from += wqe_slots(q, from))
		last = from;
	return last;
}

void done(struct qp *q)
{
	q->sq_done = q->sq_pos;
}

static uint32_t *doorbell(struct qp *q)
{
	return (uint32_t *)q->k->db;
}

void watch(struct qp *q)
{
	uint32_t free = q->sq_slots - (q->sq_pos - q->sq_done);

	for (uint32_t i = 0; i < free; i++)
		memset(q->sq + (q->sq_pos + i) % q->sq_slots * 64, POISON, 64);
	poison_pages();
	if (tracing)
		trace_begin(q->k->db, 4);
}

void see_stores(struct qp *q)
{
	uint32_t end = be32toh(doorbell(q)[1]);
	uint32_t n = (uint16_t)(end - (uint16_t)q->sq_pos);
	uint8_t *linear = malloc(n * 64 + 1);

	out_num("free", q->sq_slots - (q->sq_pos - q->sq_done));
	out_num("at", q->sq_pos & 0xffff);
	out_num("slots", n);
	out_num("db", end);
	for (uint32_t i = 0; i < n; i++)
		memcpy(linear + i * 64, q->sq + (q->sq_pos + i) % q->sq_slots * 64, 64);
	out_hex("wqe", linear, n * 64);
	free(linear);
	q->sq_pos += n;
	if (tracing)
		trace_print();
	else
		print_pages();
}

int send(const char *name, struct qp *q, struct ibv_send_wr *list, const char *ah)
{
	struct ibv_send_wr *bad = NULL;
	int rc;

	watch(q);
	rc = ibv_post_send(q->ibv, list, &bad);
	if (tracing)
		trace_end();
	rec("send", name);
	out_str("qp", q->id);
	out_open("wrs", '[');
	for (const struct ibv_send_wr *w = list; w; w = w->next)
		print_send_wr(w, ah);
	out_close(']');
	out_num("rc", rc);
	out_num("bad", rc ? bad_send(list, bad) : -1);
	see_stores(q);
	rec_end();
	return rc;
}

static int list_len(const struct ibv_recv_wr *w)
{
	int n = 0;

	for (; w; w = w->next)
		n++;
	return n;
}

int recv(const char *name, struct qp *q, struct ibv_recv_wr *list)
{
	struct ibv_recv_wr *bad = NULL;
	uint32_t n = list_len(list), room = q->rq_slots - (q->rq_pos - q->rq_done);
	uint16_t before = be32toh(doorbell(q)[0]), posted;
	int rc;

	if (n > room)
		n = room;
	for (uint32_t i = 0; i < n; i++)
		memset(q->rq + (q->rq_pos + i) % q->rq_slots * q->rq_slot, POISON, q->rq_slot);
	rc = ibv_post_recv(q->ibv, list, &bad);
	posted = be32toh(doorbell(q)[0]) - before;
	rec("recv", name);
	out_str("on", q->id);
	print_recv_wrs(list);
	out_num("rc", rc);
	out_num("bad", rc ? bad_recv(list, bad) : -1);
	out_num("free", n);
	out_num("at", q->rq_pos & 0xffff);
	out_num("db", be32toh(doorbell(q)[0]));
	out_open("slots", '[');
	for (uint32_t i = 0; i < posted; i++)
		out_hex(NULL, q->rq + (q->rq_pos + i) % q->rq_slots * q->rq_slot, q->rq_slot);
	out_close(']');
	rec_end();
	q->rq_pos += posted;
	return rc;
}

/* libmlx5 requests more slots from the kernel than the SRQ has. Older versions do not
 * reuse completed slots at once. */
void wire_srq(struct srq *s, uint32_t sge)
{
	s->stride = 32;
	while (s->stride < 16 + 16 * sge)
		s->stride *= 2;
	s->slots = s->k->wr + 1;
}

struct srq *mlx5_srq(int wr, int sge)
{
	struct srq *s = make_srq(wr, sge);

	if (s)
		wire_srq(s, s->got_sge);
	return s;
}

/* print_posted follows the list over the last n posted slots. */
static void print_posted(struct srq *s, int n)
{
	out_open("list", '[');
	for (; n; n--) {
		const uint8_t *slot = (uint8_t *)s->k->buf + s->pos * s->stride;

		s->posted[s->pos] = true;
		out_open(NULL, '{');
		out_num("slot", s->pos);
		out_hex("bytes", slot + 16, s->stride - 16);
		out_close('}');
		s->pos = slot[2] << 8 | slot[3];
	}
	out_close(']');
}

/* The slots of an SRQ are a list. Their links must not change, so only the elements of
 * the slots that are not posted are poisoned. */
int srq_recv(const char *name, struct srq *s, struct ibv_recv_wr *list)
{
	struct ibv_recv_wr *bad = NULL;
	uint32_t *db = (uint32_t *)s->k->db;
	uint8_t *buf = (uint8_t *)s->k->buf;
	uint16_t before = be32toh(*db), n;
	int rc;

	for (uint32_t i = 0; i < s->slots; i++)
		if (!s->posted[i])
			memset(buf + i * s->stride + 16, POISON, s->stride - 16);
	rc = ibv_post_srq_recv(s->ibv, list, &bad);
	n = be32toh(*db) - before;
	rec("recv", name);
	out_str("on", s->id);
	print_recv_wrs(list);
	out_num("rc", rc);
	out_num("bad", rc ? bad_recv(list, bad) : -1);
	out_num("db", be32toh(*db));
	print_posted(s, n);
	rec_end();
	return rc;
}

/* srq_reposted records a receive that the library has posted again by itself. */
void srq_reposted(struct srq *s)
{
	rec("reposted", NULL);
	out_str("on", s->id);
	out_num("db", be32toh(*(uint32_t *)s->k->db));
	print_posted(s, 1);
	rec_end();
}
