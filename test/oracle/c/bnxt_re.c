/* SPDX-License-Identifier: Apache-2.0 */

#define _GNU_SOURCE
#include "bnxt_re.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "out.h"

const struct scenario scenarios[] = {
	{ "operations", operations }, { "sizes", sizes }, { "wrap", wrap }, { "counters", counters }, { "statuses", statuses }, { "ud", datagrams },
	{ "srq", shared }, { "flush", flushes }, { "resets", resets }, { "cqs", cqs }, { "random", random_lists }, {},
};

/* The kernel reports two bits. */
enum { TOGGLES = 4 };

static int nqp;

bool chip(const char *feature)
{
	const char *v = getenv("FAKEUV_CHIP");

	return v && strstr(v, feature);
}

/* libbnxt_re 44 knows queues of powers of two and requests of fixed size only. */
static bool old(void)
{
	return RDMA_CORE < 50;
}

uint32_t depth(uint32_t n)
{
	uint32_t p = 1;

	if (!old() && !chip("pow2"))
		return n;
	while (p < n)
		p <<= 1;
	return p;
}

/* The toggle pages of CQs and SRQs. The library maps the page of a new queue last. */
static struct {
	const void *queue;
	uint32_t *page;
} toggles[2 * MAX_OBJECTS];
static int ntoggles;

static void note_toggle(const void *queue)
{
	if (!old() && !chip("p4")) {
		toggles[ntoggles].queue = queue;
		toggles[ntoggles++].page = (uint32_t *)fake->map[fake->nmap - 1].addr;
	}
}

static uint32_t *toggle_page(const void *queue)
{
	for (int i = 0; i < ntoggles; i++)
		if (toggles[i].queue == queue)
			return toggles[i].page;
	return NULL;
}

struct cq *bnxt_cq(int cqe)
{
	struct cq *c = make_cq(cqe);

	note_toggle(c);
	return c;
}

struct bqp *bnxt_qp(enum ibv_qp_type type, struct cq *scq, struct cq *rcq, struct srq *srq, struct ibv_qp_cap cap, bool sig_all)
{
	struct ibv_qp_init_attr a = { .send_cq = scq->ibv, .recv_cq = rcq->ibv, .srq = srq ? srq->ibv : NULL, .qp_type = type, .cap = cap, .sq_sig_all = sig_all };
	struct ibv_qp *ibv = ibv_create_qp(pd, &a);
	struct bqp *b = calloc(1, sizeof(*b));
	struct qp *q = &b->q;

	if (!ibv)
		DIE("ibv_create_qp");
	rec("qp", NULL);
	out_str("id", named(q->id, "qp", &nqp));
	out_str("type", type == IBV_QPT_RC ? "RC" : "UD");
	out_str("scq", scq->id);
	out_str("rcq", rcq->id);
	if (srq)
		out_str("srq", srq->id);
	print_cap("cap", &cap);
	out_num("sig_all", sig_all);
	out_num("rc", 0);
	print_cap("got_cap", &a.cap);
	out_num("qpn", ibv->qp_num);
	rec_end();
	q->ibv = ibv;
	q->scq = scq;
	q->rcq = rcq;
	q->srq = srq;
	q->k = &fake->qp[fake->nqp - 1];
	q->sq = (uint8_t *)q->k->sq_buf;
	q->rq = (uint8_t *)q->k->buf;
	b->rc = type == IBV_QPT_RC;
	b->sig_all = sig_all;
	b->variable = !old() && chip("p7");
	b->msn = !old() && (chip("p7") || chip("msn"));
	b->entries = q->k->num_sqe;
	b->depth = q->k->sq_wqe_count;
	b->entry = b->msn || chip("p4") || (old() && chip("p7")) ? 8 : 16;
	b->table = b->entries;
	if (b->msn) {
		for (b->table = 1; b->table < b->entries; b->table <<= 1)
			;
		if (b->variable)
			b->table /= 2;
	}
	b->recvs = q->k->rq_wqe_count;
	b->recv_size = q->k->rq_wqe_shift * SLOT;
	return b;
}

void bnxt_modify(struct bqp *b, enum ibv_qp_state state, uint32_t psn)
{
	static const char *states[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };
	struct ibv_qp_attr a = { .qp_state = state, .port_num = 1, .path_mtu = 1 + psn % 5, .sq_psn = psn, .qkey = 0x11111111 };
	int mask = IBV_QP_STATE, rc;

	if (state == IBV_QPS_INIT)
		mask |= IBV_QP_PORT | IBV_QP_PKEY_INDEX | (b->rc ? 0 : IBV_QP_QKEY);
	if (state == IBV_QPS_RTR && b->rc)
		mask |= IBV_QP_PATH_MTU;
	if (state == IBV_QPS_RTS)
		mask |= IBV_QP_SQ_PSN;
	rc = ibv_modify_qp(b->q.ibv, &a, mask);
	rec("modify", NULL);
	out_str("qp", b->q.id);
	out_str("state", states[state]);
	out_num("mask", mask);
	out_num("mtu", a.path_mtu);
	out_num("psn", a.sq_psn);
	out_num("rc", rc);
	rec_end();
	if (state == IBV_QPS_RESET) {
		b->index = b->slot = b->first = b->last = b->recv_index = b->recv_done = b->recv_pos = 0;
	}
}

void bnxt_ready(struct bqp *b)
{
	bnxt_modify(b, IBV_QPS_INIT, 0);
	bnxt_modify(b, IBV_QPS_RTR, rnd(5));
	bnxt_modify(b, IBV_QPS_RTS, rnd(1 << 24));
}

/* The slots of a request in its header. */
static uint32_t slots(const struct ibv_send_wr *w)
{
	uint32_t len = 0;

	if (!(w->send_flags & IBV_SEND_INLINE))
		return 2 + w->num_sge;
	for (int i = 0; i < w->num_sge; i++)
		len += w->sg_list[i].length;
	return 2 + (len + SLOT - 1) / SLOT;
}

static uint32_t used_slots(struct bqp *b, const struct ibv_send_wr *w)
{
	return b->variable ? slots(w) : STATIC_SLOTS;
}

static uint8_t *slot(struct bqp *b, uint32_t i)
{
	return b->q.sq + i % b->depth * SLOT;
}

/* The entry of the search table for a request with an index and a slot, the n-th of a list. */
static uint8_t *search(struct bqp *b, uint32_t index, uint32_t at, uint32_t n)
{
	uint32_t i = b->variable ? at : index;

	if (b->msn)
		i = b->rc ? (b->messages + n) % b->table : 0;
	return b->q.sq + b->depth * SLOT + i * b->entry;
}

/* each calls f for the requests of a list. */
static void each(struct bqp *b, const struct ibv_send_wr *list, int n, void (*f)(struct bqp *, const struct ibv_send_wr *, uint32_t, uint32_t, int))
{
	uint32_t index = b->index, at = b->slot;

	for (int i = 0; list && i < n; i++, list = list->next) {
		f(b, list, index, at, i);
		index = (index + 1) % b->entries;
		at = (at + used_slots(b, list)) % b->depth;
	}
}

static void poison_entry(struct bqp *b, const struct ibv_send_wr *w, uint32_t index, uint32_t at, int n)
{
	(void)w;
	memset(search(b, index, at, n), POISON, b->entry);
}

static uint8_t entries[64 * 16];

static void copy_entry(struct bqp *b, const struct ibv_send_wr *w, uint32_t index, uint32_t at, int n)
{
	(void)w;
	memcpy(entries + n * b->entry, search(b, index, at, n), b->entry);
}

static void note(struct bqp *b, const struct ibv_send_wr *w, uint32_t index, uint32_t at, int n)
{
	struct request *r = &b->posted[b->last++ % 4096];

	(void)n;
	*r = (struct request){ .index = index, .slot = at, .next = (index + 1) % b->entries, .signaled = b->sig_all || w->send_flags & IBV_SEND_SIGNALED };
}

int bnxt_send(const char *name, struct bqp *b, struct ibv_send_wr *list)
{
	return bnxt_send_to(name, b, list, NULL);
}

int bnxt_send_to(const char *name, struct bqp *b, struct ibv_send_wr *list, const char *ah)
{
	static uint8_t linear[64 * STATIC_SLOTS * SLOT];
	struct ibv_send_wr *bad = NULL;
	uint32_t all = 0, n = 0;
	int rc, count = 0, total = 0;

	for (const struct ibv_send_wr *w = list; w; w = w->next, total++)
		all += used_slots(b, w);
	for (uint32_t i = 0; i < all; i++)
		memset(slot(b, b->slot + i), POISON, SLOT);
	each(b, list, total, poison_entry);
	poison_pages();
	rc = abs(ibv_post_send(b->q.ibv, list, &bad));
	for (const struct ibv_send_wr *w = list; w && w != bad; w = w->next, count++)
		n += used_slots(b, w);
	rec("send", name);
	out_str("qp", b->q.id);
	out_open("wrs", '[');
	for (const struct ibv_send_wr *w = list; w; w = w->next)
		print_send_wr(w, ah);
	out_close(']');
	out_num("rc", rc);
	out_num("bad", rc ? bad_send(list, bad) : -1);
	out_num("free", all);
	out_num("at", b->slot);
	out_num("slots", n);
	each(b, list, count, copy_entry);
	out_hex("record", entries, count * b->entry);
	for (uint32_t i = 0; i < n; i++)
		memcpy(linear + i * SLOT, slot(b, b->slot + i), SLOT);
	out_hex("wqe", linear, n * SLOT);
	print_pages();
	rec_end();
	each(b, list, count, note);
	b->index = (b->index + count) % b->entries;
	b->slot = (b->slot + n) % b->depth;
	if (b->rc && b->msn)
		b->messages = (b->messages + count) % b->table;
	return rc;
}

int bnxt_recv(const char *name, struct bqp *b, struct ibv_recv_wr *list)
{
	uint32_t total = 0, n = 0;
	struct ibv_recv_wr *bad = NULL;
	int rc;

	for (const struct ibv_recv_wr *w = list; w; w = w->next, total++)
		memset(b->q.rq + (b->recv_index + total) % b->recvs * b->recv_size, POISON, b->recv_size);
	poison_pages();
	rc = abs(ibv_post_recv(b->q.ibv, list, &bad));
	for (const struct ibv_recv_wr *w = list; w && w != bad; w = w->next)
		n++;
	rec("recv", name);
	out_str("on", b->q.id);
	print_recv_wrs(list);
	out_num("rc", rc);
	out_num("bad", rc ? bad_recv(list, bad) : -1);
	out_num("free", total);
	out_num("at", b->recv_index);
	out_open("slots", '[');
	for (uint32_t i = 0; i < n; i++)
		out_hex(NULL, b->q.rq + (b->recv_index + i) % b->recvs * b->recv_size, b->recv_size);
	out_close(']');
	print_pages();
	rec_end();
	b->recv_index = (b->recv_index + n) % b->recvs;
	b->recv_pos += n;
	return rc;
}

struct srq *bnxt_srq(int wr, int sge)
{
	struct srq *s = make_srq(wr, sge);

	note_toggle(s);
	s->stride = STATIC_SLOTS * SLOT;
	s->slots = depth(wr + 1);
	return s;
}

int bnxt_srq_recv(const char *name, struct srq *s, struct ibv_recv_wr *list)
{
	struct ibv_recv_wr *bad = NULL;
	uint32_t n = 0, total = 0, at = s->pos;
	int rc;

	for (const struct ibv_recv_wr *w = list; w; w = w->next, total++)
		memset((uint8_t *)s->k->buf + (s->pos + total) % s->slots * s->stride, POISON, s->stride);
	poison_pages();
	rc = abs(ibv_post_srq_recv(s->ibv, list, &bad));
	for (const struct ibv_recv_wr *w = list; w && w != bad; w = w->next)
		n++;
	rec("recv", name);
	out_str("on", s->id);
	print_recv_wrs(list);
	out_num("rc", rc);
	out_num("bad", rc ? bad_recv(list, bad) : -1);
	out_num("free", total);
	out_num("at", at);
	out_open("slots", '[');
	for (uint32_t i = 0; i < n; i++)
		out_hex(NULL, (uint8_t *)s->k->buf + (at + i) % s->slots * s->stride, s->stride);
	out_close(']');
	print_pages();
	rec_end();
	s->pos = (s->pos + n) % s->slots;
	return rc;
}

void bnxt_limit(struct srq *s, int limit, uint32_t toggle)
{
	struct ibv_srq_attr a = { .srq_limit = limit };
	int rc = ibv_modify_srq(s->ibv, &a, IBV_SRQ_LIMIT);
	uint32_t *page = toggle_page(s);

	toggle %= TOGGLES;
	if (page)
		*page = toggle;

	rec("limit", NULL);
	out_str("on", s->id);
	out_num("wr", limit);
	out_num("arm", page ? toggle : 0);
	out_num("rc", rc);
	rec_end();
}

bool sent(struct bqp *b, uint8_t status, struct entry *e)
{
	while (b->first != b->last) {
		struct request *r = &b->posted[b->first++ % 4096];

		if (!r->signaled && !status)
			continue;
		*e = (struct entry){ .of = b->q.id, .type = TYPE_SEND, .status = status, .words[2] = status && b->variable ? r->slot : r->next };
		return true;
	}
	return false;
}

bool received(struct bqp *b, uint8_t status, uint16_t flags, uint32_t length, struct entry *e)
{
	if (b->recv_done == b->recv_pos)
		return false;
	*e = (struct entry){
		.of = b->q.id, .type = b->rc ? TYPE_RECV_RC : TYPE_RECV_UD, .status = status, .flags = flags,
		.words = { length, rnd64() }, .index = b->recv_done++ % b->recvs,
	};
	return true;
}

struct entry ended(struct bqp *b)
{
	return (struct entry){ .of = b->q.id, .type = TYPE_END, .words[2] = ~0u };
}

static uint32_t cq_depth(struct cq *c)
{
	return c->k->cqe;
}

static void encode(uint8_t *to, const struct entry *e, uint64_t handle, bool phase)
{
	bool recv = e->type == TYPE_RECV_RC || e->type == TYPE_RECV_UD;
	uint32_t words[CQE / 4];

	for (int i = 0; i < 6; i++)
		words[i] = htole32(e->words[i]);
	memcpy(words + (recv ? 2 : 0), &handle, sizeof(handle));
	words[6] = htole32((uint32_t)e->flags << 16 | (uint32_t)e->status << 8 | (uint32_t)e->resize_toggle << 5 | (uint32_t)e->type << 1 | phase);
	words[7] = htole32(e->index);
	memcpy(to, words, sizeof(words));
}

static uint64_t handle_of(const char *id)
{
	int i;

	if (!id)
		return 0;
	i = atoi(id + 2);
	return fake->qp[i].db;
}

static bool phase(struct cq *c, uint32_t i)
{
	return !(i / cq_depth(c) & 1);
}

static void add(struct cq *c, const struct entry *e)
{
	encode((uint8_t *)c->k->buf + c->pi % cq_depth(c) * CQE, e, handle_of(e->of), phase(c, c->pi));
	c->pi++;
}

/* print_entries prints entries from a number on. The handle of the QP is not in the vectors. */
static void print_entries(struct cq *c, uint32_t from, const struct entry *e, int n)
{
	uint8_t bytes[CQE];

	out_open("cqes", '[');
	for (int i = 0; i < n; i++) {
		encode(bytes, &e[i], 0, phase(c, from + i));
		out_open(NULL, '{');
		if (e[i].of)
			out_str("of", e[i].of);
		out_num("slot", (from + i) % cq_depth(c));
		out_hex("bytes", bytes, CQE);
		out_close('}');
	}
	out_close(']');
}

void bnxt_poll(const char *name, struct cq *c, const struct entry *e, int n, int max)
{
	static struct ibv_wc wc[MAX_LIST];

	rec("poll", name);
	out_str("cq", c->id);
	print_entries(c, c->pi, e, n);
	for (int i = 0; i < n; i++)
		add(c, &e[i]);
	out_num("max", max);
	memset(wc, POISON, sizeof(wc));
	poison_pages();
	n = ibv_poll_cq(c->ibv, max, wc);
	out_num("n", n);
	out_open("wcs", '[');
	for (int i = 0; i < n; i++)
		print_wc(&wc[i]);
	out_close(']');
	print_pages();
	rec_end();
}

void finish(struct bqp *b)
{
	struct entry e;

	while (sent(b, 0, &e))
		bnxt_poll("finish", b->q.scq, &e, 1, 2);
	while (!b->q.srq && received(b, 0, 0, 1 + b->recv_done % 1000, &e))
		bnxt_poll("finish", b->q.rcq, &e, 1, 2);
}

void bnxt_arm(struct cq *c, int solicited, uint32_t toggle)
{
	uint32_t *page = toggle_page(c);

	toggle %= TOGGLES;
	if (page)
		*page = toggle;
	poison_pages();
	ibv_req_notify_cq(c->ibv, solicited);
	rec("arm", NULL);
	out_str("cq", c->id);
	out_num("solicited", solicited);
	out_num("arm", page ? toggle : 0);
	print_pages();
	rec_end();
}

static struct {
	struct cq *cq;
	const struct entry *e;
	int n;
} resizing;

/* The device completes more requests before it ends the old ring, with the last of these entries. */
static void on_resize(uint32_t handle)
{
	(void)handle;
	for (int i = 0; i < resizing.n; i++)
		add(resizing.cq, &resizing.e[i]);
}

void bnxt_resize(struct cq *c, int cqe, const struct entry *e, int n)
{
	uint32_t from = c->pi, old_depth = c->k->cqe;
	int rc;

	resizing.cq = c;
	resizing.e = e;
	resizing.n = n;
	fake->on_resize = on_resize;
	poison_pages();
	rc = abs(ibv_resize_cq(c->ibv, cqe));
	rec("resize", NULL);
	out_str("cq", c->id);
	out_num("cqe", cqe);
	out_num("rc", rc);
	if (!rc)
		out_num("got", c->ibv->cqe);
	c->k->cqe = old_depth;
	print_entries(c, from, e, n);
	print_pages();
	rec_end();
	if (rc)
		return;
	c->k->cqe = c->ibv->cqe;
	c->k->buf = c->k->db;
	c->k->cqe = depth(c->k->cqe + 1);
	c->pi = 0;
}

void many(const char *name, struct bqp *b, uint64_t count, int list, struct ibv_send_wr *wr)
{
	struct ibv_send_wr w[MAX_LIST], *bad;
	struct ibv_wc wc[MAX_LIST];
	struct entry e;

	for (int i = 0; i < list; i++) {
		w[i] = *wr;
		w[i].next = &w[i + 1];
	}
	for (uint64_t left = count; left;) {
		int n = left < (uint64_t)list ? (int)left : list;

		w[n - 1].next = NULL;
		if (ibv_post_send(b->q.ibv, w, &bad))
			DIE("ibv_post_send");
		each(b, w, n, note);
		b->index = (b->index + n) % b->entries;
		b->slot = (b->slot + n * used_slots(b, wr)) % b->depth;
		if (b->rc && b->msn)
			b->messages = (b->messages + n) % b->table;
		w[n - 1].next = &w[n];
		while (sent(b, 0, &e))
			add(b->q.scq, &e);
		if (ibv_poll_cq(b->q.scq->ibv, MAX_LIST, wc) != n)
			DIE("ibv_poll_cq");
		left -= n;
	}
	wr->next = NULL;
	rec("many", name);
	out_str("qp", b->q.id);
	out_u64("count", count);
	out_num("list", list);
	out_open("wrs", '[');
	print_send_wr(wr, NULL);
	out_close(']');
	rec_end();
}
