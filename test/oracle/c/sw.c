/* SPDX-License-Identifier: Apache-2.0 */

/* Runs librxe or libsiw on the fake device, and prints its use of the queues in the kernel's
 * memory as records. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sw.h"

static int nqp;

struct qp *sw_qp(enum ibv_qp_type type, struct cq *scq, struct cq *rcq, struct srq *srq, struct ibv_qp_cap cap, bool sig_all)
{
	struct ibv_qp_init_attr a = {
		.send_cq = scq->ibv, .recv_cq = rcq->ibv, .srq = srq ? srq->ibv : NULL,
		.qp_type = type, .cap = cap, .sq_sig_all = sig_all,
	};
	struct ibv_qp *ibv = ibv_create_qp(pd, &a);
	struct qp *q = calloc(1, sizeof(*q));

	if (!ibv)
		DIE("ibv_create_qp");
	rec("qp", NULL);
	out_str("id", named(q->id, "qp", &nqp));
	out_str("type", type == IBV_QPT_UD ? "UD" : type == IBV_QPT_UC ? "UC" : "RC");
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
	q->k = &fake->qp[fake->nqp - 1];
	q->sq_ring = sw_ring(q->k->sq_map, sizeof(struct siw_sqe), q->k->num_sqe);
	if (q->k->rq_map)
		q->rq_ring = sw_ring(q->k->rq_map, sizeof(struct siw_rqe), q->k->num_rqe);
	return q;
}

struct srq *sw_srq(int wr, int sge)
{
	struct srq *s = make_srq(wr, sge);

	if (!s)
		DIE("ibv_create_srq");
	s->ring = sw_ring(s->k->map, sizeof(struct siw_rqe), s->k->num_rqe);
	return s;
}

/* rxe's rings have a header, whose masks and indices count slots. siw's rings are
 * arrays. */
struct ring sw_ring(uint64_t at, uint32_t siw_slot, uint32_t siw_slots)
{
	struct rxe_queue_buf *q = (void *)at;

	if (is_siw())
		return (struct ring){ .slot = (uint8_t *)at, .size = siw_slot, .n = siw_slots };
	return (struct ring){ .head = q, .slot = q->data, .size = 1u << q->log2_elem_size, .n = q->index_mask + 1 };
}

static uint8_t *slot(struct ring *r, uint32_t i)
{
	return r->slot + (size_t)(i % r->n) * r->size;
}

/* The flags of siw mark the owner of a slot. They have an equal offset in both kinds. */
static uint16_t *siw_flags(struct ring *r, uint32_t i)
{
	return &((struct siw_sqe *)slot(r, i))->flags;
}

/* poison fills the slots that do not belong to the device. */
static void poison(struct ring *r)
{
	for (uint32_t i = r->taken; i - r->taken < r->n; i++) {
		if (i - r->taken < r->posted - r->taken)
			continue;
		memset(slot(r, i), POISON, r->size);
		if (!r->head)
			*siw_flags(r, i) = 0;
	}
}

/* see prints the posted slots, without the poison at their ends. */
static void see(struct ring *r, int n)
{
	out_num("at", r->posted % r->n);
	out_open("slots", '[');
	for (int i = 0; i < n; i++) {
		const uint8_t *b = slot(r, r->posted + i);
		uint32_t len = r->size;

		while (len && b[len - 1] == POISON)
			len--;
		out_hex(NULL, b, len);
	}
	out_close(']');
	r->posted += n;
	if (r->head)
		out_num("db", r->head->producer_index);
}

/* take takes slots as the device. */
static void take(struct ring *r, uint32_t n)
{
	if (n > r->posted - r->taken)
		n = r->posted - r->taken;
	for (uint32_t i = 0; i < n; i++, r->taken++)
		if (!r->head)
			*siw_flags(r, r->taken) = 0;
	if (r->head)
		r->head->consumer_index = r->taken % r->n;
	out_num("take", n);
}

/* librxe stores the address of the AH in a datagram's iova. */
static void forget_address(struct qp *q)
{
	for (uint32_t i = 0; i < q->sq_ring.n && !is_siw() && q->ibv->qp_type == IBV_QPT_UD; i++)
		memset(&((struct rxe_send_wqe *)slot(&q->sq_ring, i))->iova, POISON, 8);
}

int sw_send(const char *name, struct qp *q, struct ibv_send_wr *list, const char *ah, uint32_t taking)
{
	struct ibv_send_wr *bad = NULL, *w;
	int bells = fake->doorbells, rc, n = 0;

	poison(&q->sq_ring);
	rc = abs(ibv_post_send(q->ibv, list, &bad));
	forget_address(q);
	rec("send", name);
	out_str("qp", q->id);
	out_open("wrs", '[');
	for (w = list; w; w = w->next)
		print_send_wr(w, ah);
	out_close(']');
	/* libsiw sets the bad request but returns success, if it could ring for the requests
	 * before it. */
	out_num("rc", rc);
	out_num("bad", bad_send(list, bad));
	for (w = list; w && w != bad; w = w->next)
		n++;
	see(&q->sq_ring, n);
	out_num("bells", fake->doorbells - bells);
	take(&q->sq_ring, taking);
	fake->log_len = 0; /* the doorbells are counted */
	rec_end();
	return rc;
}

static int sw_recv_on(const char *name, const char *id, struct ring *r, struct ibv_recv_wr *list, uint32_t taking, int rc, struct ibv_recv_wr *bad)
{
	int n = 0;

	rec("recv", name);
	out_str("on", id);
	print_recv_wrs(list);
	out_num("rc", rc);
	out_num("bad", bad_recv(list, bad));
	for (struct ibv_recv_wr *w = list; w && w != bad; w = w->next)
		n++;
	see(r, n);
	take(r, taking);
	rec_end();
	return rc;
}

int sw_recv(const char *name, struct qp *q, struct ibv_recv_wr *list, uint32_t taking)
{
	struct ibv_recv_wr *bad = NULL;
	int rc;

	poison(&q->rq_ring);
	rc = abs(ibv_post_recv(q->ibv, list, &bad));
	return sw_recv_on(name, q->id, &q->rq_ring, list, taking, rc, bad);
}

int sw_srq_recv(const char *name, struct srq *s, struct ibv_recv_wr *list, uint32_t taking)
{
	struct ibv_recv_wr *bad = NULL;
	int rc;

	poison(&s->ring);
	rc = abs(ibv_post_srq_recv(s->ibv, list, &bad));
	return sw_recv_on(name, s->id, &s->ring, list, taking, rc, bad);
}

/* The device adds entries, and they are polled. */
void sw_poll(const char *name, struct cq *c, const void *entries, uint32_t size, int n, int max)
{
	struct rxe_queue_buf *head = !is_siw() ? (void *)c->k->buf : NULL;
	static struct ibv_wc wc[MAX_LIST];

	rec("poll", name);
	out_str("cq", c->id);
	out_open("cqes", '[');
	for (int i = 0; i < n; i++) {
		const uint8_t *e = (const uint8_t *)entries + (size_t)i * size;
		uint32_t at = c->pi++ % (head ? head->index_mask + 1 : c->k->cqe);

		if (head) {
			memcpy(head->data + ((size_t)at << head->log2_elem_size), e, size);
			head->producer_index = c->pi & head->index_mask;
		} else {
			memcpy((uint8_t *)c->k->buf + at * size, e, size);
		}
		out_open(NULL, '{');
		out_num("slot", at);
		out_hex("bytes", e, size);
		out_close('}');
	}
	out_close(']');
	out_num("max", max);
	memset(wc, POISON, sizeof(wc));
	n = ibv_poll_cq(c->ibv, max, wc);
	out_open("wcs", '[');
	for (int i = 0; i < n; i++)
		print_wc(&wc[i]);
	out_close(']');
	out_num("n", n);
	if (head)
		out_num("ci", head->consumer_index);
	rec_end();
}

/* rxe is armed by a command, siw by a word behind the entries. */
void sw_arm(struct cq *c, int solicited)
{
	int arms = fake->arms;

	ibv_req_notify_cq(c->ibv, solicited);
	rec("arm", NULL);
	out_str("cq", c->id);
	out_num("solicited", solicited);
	if (is_siw()) {
		out_num("arm", *(uint32_t *)(c->k->buf + c->k->cqe * sizeof(struct siw_cqe)));
	} else {
		out_num("bells", fake->arms - arms);
		out_num("arm", fake->arm_solicited);
	}
	fake->log_len = 0;
	rec_end();
}

const struct scenario scenarios[] = { { "fixed", fixed }, { "ud", datagrams }, { "srq", shared }, { "mw", windows }, { "random", random_lists }, {} };
