/* SPDX-License-Identifier: Apache-2.0 */

#define _GNU_SOURCE
#include "erdma.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "out.h"

const struct scenario scenarios[] = {
	{ "operations", operations }, { "trace", trace }, { "sizes", sizes }, { "wrap", wrap }, { "counters", counters },
	{ "statuses", statuses }, { "events", events }, { "random", random_lists }, {},
};

static int nqp;

struct qp *erdma_qp(struct cq *scq, struct cq *rcq, struct ibv_qp_cap cap, bool sig_all)
{
	struct ibv_qp_init_attr a = { .send_cq = scq->ibv, .recv_cq = rcq->ibv, .qp_type = IBV_QPT_RC, .cap = cap, .sq_sig_all = sig_all };
	struct ibv_qp *ibv = ibv_create_qp(pd, &a);
	struct qp *q = calloc(1, sizeof(*q));

	if (!ibv)
		DIE("ibv_create_qp");
	rec("qp", NULL);
	out_str("id", named(q->id, "qp", &nqp));
	out_str("type", "RC");
	out_str("scq", scq->id);
	out_str("rcq", rcq->id);
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
	q->sq = (uint8_t *)q->k->sq_buf;
	q->rq = (uint8_t *)q->k->buf;
	q->sq_slots = q->k->sq_wqe_count;
	q->rq_slots = q->k->rq_wqe_count;
	return q;
}

static uint8_t *block(struct qp *q, uint32_t i)
{
	return q->sq + i % q->sq_slots * BLOCK;
}

static uint8_t *receive(struct qp *q, uint32_t i)
{
	return q->rq + i % q->rq_slots * BLOCK;
}

/* The doorbell records of the two queues. Their low 16 bits are the number of the next slot. */
static uint64_t *record(struct qp *q)
{
	return (uint64_t *)q->k->db;
}

static uint16_t next(uint64_t record)
{
	return le64toh(record);
}

static void watch(struct qp *q)
{
	poison_pages();
	if (tracing)
		trace_begin(q->k->db, sizeof(uint64_t));
}

static void see(void)
{
	if (tracing)
		trace_print();
	else
		print_pages();
}

int erdma_send(const char *name, struct qp *q, struct ibv_send_wr *list)
{
	uint32_t free = q->sq_slots - (q->sq_pos - q->sq_done), n;
	struct ibv_send_wr *bad = NULL;
	uint8_t linear[MAX_LIST * 4 * BLOCK];
	int rc;

	for (uint32_t i = 0; i < free; i++)
		memset(block(q, q->sq_pos + i), POISON, BLOCK);
	watch(q);
	rc = abs(ibv_post_send(q->ibv, list, &bad));
	if (tracing)
		trace_end();
	n = (uint16_t)(next(record(q)[0]) - (uint16_t)q->sq_pos);
	rec("send", name);
	out_str("qp", q->id);
	out_open("wrs", '[');
	for (const struct ibv_send_wr *w = list; w; w = w->next)
		print_send_wr(w, NULL);
	out_close(']');
	out_num("rc", rc);
	out_num("bad", rc ? bad_send(list, bad) : -1);
	out_num("free", free);
	out_num("at", q->sq_pos & 0xffff);
	out_num("slots", n);
	out_hex("record", record(q), sizeof(uint64_t));
	for (uint32_t i = 0; i < n; i++)
		memcpy(linear + i * BLOCK, block(q, q->sq_pos + i), BLOCK);
	out_hex("wqe", linear, n * BLOCK);
	see();
	rec_end();
	q->sq_pos += n;
	return rc;
}

/* A doorbell includes the reserved bytes of its slot, which liberdma never writes. They are zeros in new memory. */
static void poison_receive(uint8_t *slot)
{
	memset(slot, POISON, BLOCK);
	memset(slot + 2, 0, 2);
}

int erdma_recv(const char *name, struct qp *q, struct ibv_recv_wr *list)
{
	uint32_t free = q->rq_slots - (q->rq_pos - q->rq_done), n;
	struct ibv_recv_wr *bad = NULL;
	int rc;

	for (uint32_t i = 0; i < free; i++)
		poison_receive(receive(q, q->rq_pos + i));
	watch(q);
	rc = abs(ibv_post_recv(q->ibv, list, &bad));
	if (tracing)
		trace_end();
	n = (uint16_t)(next(record(q)[1]) - (uint16_t)q->rq_pos);
	rec("recv", name);
	out_str("on", q->id);
	print_recv_wrs(list);
	out_num("rc", rc);
	out_num("bad", rc ? bad_recv(list, bad) : -1);
	out_num("free", free);
	out_num("at", q->rq_pos & 0xffff);
	out_hex("record", record(q) + 1, sizeof(uint64_t));
	out_open("slots", '[');
	for (uint32_t i = 0; i < n; i++)
		out_hex(NULL, receive(q, q->rq_pos + i), BLOCK);
	out_close(']');
	see();
	rec_end();
	q->rq_pos += n;
	return rc;
}

/* Bits of the first word of a request. */
#define SIGNALED(header) ((header) >> 22 & 1)
#define OPCODE(header) ((header) >> 27 & 31)
#define BLOCKS(header) (((header) >> 52 & 7) + 1)

bool sent(struct qp *q, struct entry *e)
{
	while (q->sq_done != q->sq_pos) {
		uint32_t at = q->sq_done;
		uint64_t header;

		memcpy(&header, block(q, at), sizeof(header));
		header = le64toh(header);
		q->sq_done += BLOCKS(header);
		if (!SIGNALED(header))
			continue;
		*e = (struct entry){ .qpn = q->ibv->qp_num, .opcode = OPCODE(header), .index = at };
		return true;
	}
	return false;
}

bool received(struct qp *q, int opcode, uint32_t size, struct entry *e)
{
	if (q->rq_done == q->rq_pos)
		return false;
	*e = (struct entry){ .qpn = q->ibv->qp_num, .opcode = opcode, .queue = 1, .index = q->rq_done++, .size = size };
	return true;
}

/* encode writes an entry. In the first pass around the queue the device sets the owner bit, in the second it clears
 * it, and so on. */
static void encode(uint8_t *to, const struct entry *e, bool owner)
{
	uint32_t words[BLOCK / 4] = {
		htobe32((uint32_t)owner << 31 | e->opcode << 16 | e->queue << 8 | e->syndrome),
		htobe32(e->index), htobe32(e->qpn), htole32(e->imm), htobe32(e->size),
	};

	memcpy(to, words, sizeof(words));
}

static uint32_t add(struct cq *c, const struct entry *e)
{
	uint32_t slot = c->pi & (c->k->cqe - 1);

	encode((uint8_t *)c->k->buf + slot * BLOCK, e, !(c->pi & c->k->cqe));
	c->pi++;
	return slot;
}

void erdma_poll(const char *name, struct cq *c, const struct entry *e, int n, int max)
{
	static struct ibv_wc wc[MAX_LIST];

	rec("poll", name);
	out_str("cq", c->id);
	out_open("cqes", '[');
	for (int i = 0; i < n; i++) {
		uint32_t slot = add(c, &e[i]);

		out_open(NULL, '{');
		out_num("slot", slot);
		out_hex("bytes", (uint8_t *)c->k->buf + slot * BLOCK, BLOCK);
		out_close('}');
	}
	out_close(']');
	out_num("max", max);
	memset(wc, POISON, sizeof(wc));
	n = ibv_poll_cq(c->ibv, max, wc);
	out_num("n", n);
	out_open("wcs", '[');
	for (int i = 0; i < n; i++)
		print_wc(&wc[i]);
	out_close(']');
	rec_end();
}

void finish(struct qp *q)
{
	struct entry e;

	while (sent(q, &e))
		erdma_poll("finish", q->scq, &e, 1, 2);
	while (received(q, OP_RECEIVE, 1 + q->rq_done % 1000, &e))
		erdma_poll("finish", q->rcq, &e, 1, 2);
}

void erdma_arm(struct cq *c, int solicited)
{
	poison_pages();
	ibv_req_notify_cq(c->ibv, solicited);
	rec("arm", NULL);
	out_str("cq", c->id);
	out_num("solicited", solicited);
	out_hex("record", (void *)c->k->db, sizeof(uint64_t));
	print_pages();
	rec_end();
}

/* The channel is an eventfd, whose counter has the form of an event: the user's handle of the CQ. */
void event(struct cq *c, struct ibv_comp_channel *channel)
{
	uint64_t handle = (uintptr_t)c->ibv;
	struct ibv_cq *got;
	void *context;

	if (write(channel->fd, &handle, sizeof(handle)) != sizeof(handle) || ibv_get_cq_event(channel, &got, &context) || got != c->ibv)
		DIE("ibv_get_cq_event");
	ibv_ack_cq_events(got, 1);
	rec("event", NULL);
	out_str("cq", c->id);
	rec_end();
}

void many(const char *name, struct qp *q, uint64_t count, int list, struct ibv_send_wr *wr)
{
	struct ibv_send_wr w[MAX_LIST], *bad;
	struct ibv_wc wc[MAX_LIST];
	uint8_t bytes[BLOCK];
	struct entry e;

	for (int i = 0; i < list; i++) {
		w[i] = *wr;
		w[i].next = &w[i + 1];
	}
	for (uint64_t left = count; left;) {
		int n = left < (uint64_t)list ? (int)left : list;

		w[n - 1].next = NULL;
		if (ibv_post_send(q->ibv, w, &bad))
			DIE("ibv_post_send");
		w[n - 1].next = &w[n];
		q->sq_pos += (uint16_t)(next(record(q)[0]) - (uint16_t)q->sq_pos);
		while (sent(q, &e))
			add(q->scq, &e);
		if (ibv_poll_cq(q->scq->ibv, MAX_LIST, wc) != n)
			DIE("ibv_poll_cq");
		left -= n;
	}
	wr->next = NULL;
	e.index = 0;
	encode(bytes, &e, false);
	rec("many", name);
	out_str("qp", q->id);
	out_u64("count", count);
	out_num("list", list);
	out_open("wrs", '[');
	print_send_wr(wr, NULL);
	out_close(']');
	out_open("cqes", '[');
	out_open(NULL, '{');
	out_hex("bytes", bytes, BLOCK);
	out_close('}');
	out_close(']');
	out_hex("record", record(q), sizeof(uint64_t));
	rec_end();
}
