/* SPDX-License-Identifier: Apache-2.0 */

#define _GNU_SOURCE
#include <string.h>

#include "bnxt_re.h"

/* QPs of at least this size. */
#define CAP (struct ibv_qp_cap){ .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 6, .max_recv_sge = 6, .max_inline_data = 96 }
enum { MAX_SGE = 6, OLD = RDMA_CORE < 50 };

static const int ops[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
	IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD };
enum { NOPS = sizeof(ops) / sizeof(*ops) };

static bool is_atomic(int op)
{
	return op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool can_inline(int op)
{
	return !is_atomic(op) && op != IBV_WR_RDMA_READ;
}

static void all_flags(struct bqp *b)
{
	struct ibv_sge s[2] = { piece(0x100, 40), piece(0x200, 8) };

	for (int i = 0; i < NOPS; i++)
		for (int f = 0; f < 16; f++) {
			struct ibv_send_wr w = work(ops[i], f, is_atomic(ops[i]) ? s + 1 : s, 1);

			if (f & IBV_SEND_INLINE && !can_inline(ops[i]))
				continue;
			bnxt_send("flags", b, &w);
			finish(b);
		}
}

static void elements(struct bqp *b)
{
	struct ibv_sge s[MAX_SGE + 1] = { piece(0x100, 40), piece(0x2001, 8), piece(0x301, 0), piece(0x400, 70000), piece(0, 1), piece(5, 4096), piece(9, 9) };

	for (int i = 0; i < NOPS; i++)
		for (int n = 0; n <= MAX_SGE + 1; n++) {
			struct ibv_send_wr w = work(ops[i], IBV_SEND_SIGNALED, s, n);

			if (is_atomic(ops[i]))
				continue;
			bnxt_send("elements", b, &w);
			finish(b);
		}
}

/* Version 44 of rdma-core puts each element into a slot of its own. */
static void inlined(struct bqp *b)
{
	for (int i = 0; i < NOPS; i++)
		for (uint32_t len = 0; len <= MAX_INLINE + 1; len += len < 4 || len > 90 ? 1 : 7) {
			struct ibv_sge s[3] = { piece(0x500 + len, len / 2), piece(0x600, 0), piece(0x700, len - len / 2) };
			struct ibv_send_wr w = work(ops[i], IBV_SEND_SIGNALED | IBV_SEND_INLINE, s, 3);

			if (!can_inline(ops[i]) || (OLD && len > MAX_INLINE))
				continue;
			if (OLD || len % 2) {
				s[0].length = len;
				w.num_sge = 1;
			}
			bnxt_send("inline", b, &w);
			finish(b);
		}
}

/* Lists, some with a request that is refused, and some with requests that can be pushed. */
static void lists(struct bqp *b)
{
	struct ibv_sge s[MAX_SGE + 1], small = piece(0x300, 30);

	for (int i = 0; i <= MAX_SGE; i++)
		s[i] = piece(0x100 * i, 40 + i);
	for (int i = 0; i < 60; i++) {
		struct ibv_send_wr w[5];
		int n = 1 + i % 5;

		for (int k = 0; k < n; k++) {
			w[k] = work(k % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, k == n - 1 ? IBV_SEND_SIGNALED : 0, s, (i + k) % (MAX_SGE + 1));
			if ((i + 2 * k) % 3 == 0) {
				w[k].sg_list = &small;
				w[k].num_sge = 1;
				w[k].send_flags |= IBV_SEND_INLINE;
			}
			w[k].next = k + 1 < n ? &w[k + 1] : NULL;
		}
		if (i % 7 == 5) {
			w[n - 1].send_flags &= ~IBV_SEND_INLINE;
			w[n - 1].sg_list = s;
			w[n - 1].num_sge = MAX_SGE + 1;
		}
		bnxt_send("list", b, w);
		finish(b);
	}
}

static void receives(struct bqp *b)
{
	struct ibv_sge s[MAX_SGE + 1];

	for (int i = 0; i <= MAX_SGE; i++)
		s[i] = piece(0x1000 * i, 500 + i);
	for (int i = 0; i < 60; i++) {
		struct ibv_recv_wr w[5];
		struct entry e;
		int n = 1 + i % 5;

		for (int k = 0; k < n; k++)
			w[k] = (struct ibv_recv_wr){ .wr_id = 0x5000 + 16 * i + k, .sg_list = s, .num_sge = (i + k) % (MAX_SGE + 1), .next = k + 1 < n ? &w[k + 1] : NULL };
		if (i % 11 == 5)
			w[n - 1].num_sge = MAX_SGE + 1;
		bnxt_recv("recv", b, w);
		for (int k = 0; k < i % 4 && received(b, 0, k == 1 ? RECV_IMM : k == 2 ? RECV_IMM | RECV_WRITE : 0, 100 + k, &e); k++)
			bnxt_poll("recv", b->q.rcq, &e, 1, 1);
		if (i % 4 == 3)
			finish(b);
	}
}

/* Requests, and receives, until no more fit. A queue of requests of variable size has more room than the provider uses. */
static void fill(struct bqp *b)
{
	struct ibv_sge s = piece(0x100, 40);
	struct ibv_recv_wr r = { .sg_list = &s, .num_sge = 1 };
	struct ibv_send_wr w;

	do
		w = work(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, &s, 1);
	while (!b->variable && !bnxt_send("full", b, &w));
	do
		r.wr_id++;
	while (!bnxt_recv("full", b, &r));
	finish(b);
}

void operations(void)
{
	struct cq *scq = bnxt_cq(63), *rcq = bnxt_cq(100);

	for (int sig = 0; sig < 2; sig++) {
		struct bqp *b = bnxt_qp(IBV_QPT_RC, scq, rcq, NULL, CAP, sig);

		bnxt_ready(b);
		all_flags(b);
		lists(b);
		if (!sig) {
			elements(b);
			inlined(b);
			receives(b);
		}
		fill(b);
	}
}

void sizes(void)
{
	static const uint32_t sends[] = { 1, 2, 3, 100, 127, 128, 129, 1024, 4000 }, recvs[] = { 1, 2, 127, 128, 129, 4000 };
	struct cq *cq = bnxt_cq(1);
	struct ibv_sge s = piece(0x100, 64);

	bnxt_cq(64);
	bnxt_cq(127);
	bnxt_cq(4095);
	bnxt_cq(4096);
	bnxt_cq(8191);
	for (unsigned i = 0; i < sizeof(sends) / sizeof(*sends); i++)
		for (unsigned k = i % 2; k < sizeof(recvs) / sizeof(*recvs); k += 2) {
			struct ibv_qp_cap cap = { .max_send_wr = sends[i], .max_recv_wr = recvs[k], .max_send_sge = 1 + i % MAX_SGE, .max_recv_sge = 1 + k % MAX_SGE, .max_inline_data = 8 * i };
			struct ibv_send_wr w = work(IBV_WR_SEND, IBV_SEND_SIGNALED, &s, 1);
			struct ibv_recv_wr r = { .wr_id = i, .sg_list = &s, .num_sge = 1 };
			struct bqp *b = bnxt_qp(IBV_QPT_RC, cq, cq, NULL, cap, false);

			bnxt_ready(b);
			bnxt_send("size", b, &w);
			bnxt_recv("size", b, &r);
			finish(b);
		}
}

/* Requests of many sizes, at many places of the ring. */
static void around(struct bqp *b)
{
	struct ibv_sge s[MAX_SGE], eight = piece(0x100, 8);

	for (int i = 0; i < MAX_SGE; i++)
		s[i] = piece(0x1000 * i, 50 + i);
	for (uint32_t i = 0; i < (b->variable ? b->depth / 4 : b->entries + 30); i++) {
		struct ibv_send_wr w = work(i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, s, i / 2 % (MAX_SGE + 1));
		struct ibv_recv_wr r = { .wr_id = i, .sg_list = s, .num_sge = 1 };

		if (i % 5 == 3) {
			w.send_flags |= IBV_SEND_INLINE;
			s[0].length = i % (MAX_INLINE + 1);
			w.num_sge = 1;
		}
		if (i % 5 == 4)
			w = work(ops[4 + i % 3], IBV_SEND_SIGNALED, &eight, 1);
		bnxt_send("wrap", b, &w);
		bnxt_recv("wrap", b, &r);
		finish(b);
	}
}

void wrap(void)
{
	struct ibv_qp_cap cap = CAP;
	struct cq *cq = bnxt_cq(64);
	struct bqp *b;

	cap.max_send_wr = cap.max_recv_wr = 8;
	b = bnxt_qp(IBV_QPT_RC, cq, cq, NULL, cap, false);
	bnxt_ready(b);
	around(b);
}

/* Past the 24 bits of packet numbers and many passes around the rings. */
void counters(void)
{
	struct cq *cq = bnxt_cq(64);
	struct bqp *b = bnxt_qp(IBV_QPT_RC, cq, cq, NULL, CAP, false);
	struct ibv_sge s = piece(0x100, 100000);
	struct ibv_send_wr w = work(IBV_WR_SEND, IBV_SEND_SIGNALED, &s, 1);

	bnxt_modify(b, IBV_QPS_INIT, 0);
	bnxt_modify(b, IBV_QPS_RTR, 0);
	bnxt_modify(b, IBV_QPS_RTS, 0xfff000);
	many("2^16_requests", b, 65530, 16, &w);
	for (int i = 0; i < 12; i++) {
		bnxt_send("2^16_requests", b, &w);
		finish(b);
		if (!OLD)
			bnxt_arm(cq, i % 2, i);
	}
}

/* Each status of a request and of a receive. A QP does not survive an error. */
void statuses(void)
{
	static const int kinds[] = { 0, RECV_IMM, RECV_IMM | RECV_WRITE, RECV_INV };
	struct cq *cq = bnxt_cq(64);
	struct ibv_sge s = piece(0x100, 64);

	for (int status = 0; status < 16; status++) {
		struct bqp *b = bnxt_qp(IBV_QPT_RC, cq, cq, NULL, CAP, false);

		bnxt_ready(b);
		for (int i = 0; i < (status ? 1 : NOPS * 4); i++) {
			int op = ops[status ? status % NOPS : i % NOPS];
			struct ibv_send_wr w = work(op, IBV_SEND_SIGNALED, &s, 1);
			struct ibv_recv_wr r = { .wr_id = rnd64(), .sg_list = &s, .num_sge = 1 };
			struct entry e[2];

			s.length = is_atomic(op) ? 8 : 64;
			bnxt_send("status", b, &w);
			bnxt_recv("status", b, &r);
			if (!sent(b, status == 15 ? 0xfe : status, &e[0]) || !received(b, status == 15 ? 0xfe : status, kinds[i % 4], rnd64() & 0x3fffffff, &e[1]))
				DIE("nothing posted");
			/* A receive that the device has not taken has no completion of its own. */
			bnxt_poll("status", cq, e, 2, status == 8 ? 1 : 3);
		}
	}
}

void datagrams(void)
{
	struct ibv_ah_attr a = { .is_global = 1, .grh = { .sgid_index = 3, .hop_limit = 64, .traffic_class = 9, .flow_label = 0x12345 }, .sl = 2, .port_num = 1 };
	struct cq *cq = bnxt_cq(64);
	struct bqp *b = bnxt_qp(IBV_QPT_UD, cq, cq, NULL, CAP, false);
	static const char *ids[] = { "ah0", "ah1", "ah2" };
	struct ibv_ah *ah[3];
	struct ibv_sge s[MAX_SGE];

	for (int i = 0; i < 3; i++) {
		a.grh.dgid.raw[15] = i;
		ah[i] = make_ah(ids[i], &a);
	}
	for (int i = 0; i < MAX_SGE; i++)
		s[i] = piece(0x1000 * i, 50 + i);
	bnxt_ready(b);
	for (int i = 0; i < 120; i++) {
		struct ibv_send_wr w = work(i % 2 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM, IBV_SEND_SIGNALED | (i % 5 == 2 ? IBV_SEND_SOLICITED : 0), s, i % (MAX_SGE + 1));
		struct ibv_recv_wr r = { .wr_id = rnd64(), .sg_list = s, .num_sge = 1 + i % 3 };
		struct entry e;

		if (i % 4 == 3) {
			w.send_flags |= IBV_SEND_INLINE;
			w.num_sge = 1;
			s[0].length = i % (MAX_INLINE + 1);
		}
		w.wr.ud.ah = ah[i % 3];
		w.wr.ud.remote_qpn = rnd(1 << 24);
		w.wr.ud.remote_qkey = rnd64();
		bnxt_send_to("ud", b, &w, ids[i % 3]);
		bnxt_recv("ud", b, &r);
		/* The library masks the upper part of the number of the sender's QP with 0x18. */
		received(b, 0, (i % 3 ? RECV_IMM : 0) | (1 + i % 2) << 4, 40 + rnd(4000), &e);
		e.words[5] = rnd64() & 0xffff0000;
		e.index |= (rnd64() & 0x18) << 24;
		bnxt_poll("ud", cq, &e, 1, 2);
		finish(b);
	}
}

/* Receives that complete in another order. */
void shared(void)
{
	struct ibv_sge s[MAX_SGE + 1];
	struct cq *cq = bnxt_cq(64);
	struct srq *srq = bnxt_srq(20, MAX_SGE);
	struct bqp *b[2];
	uint32_t tags[32];
	int ntags = 0;

	for (int i = 0; i < 2; i++) {
		b[i] = bnxt_qp(IBV_QPT_RC, cq, cq, srq, CAP, false);
		bnxt_ready(b[i]);
	}
	for (int i = 0; i <= MAX_SGE; i++)
		s[i] = piece(0x1000 * i, 50 + i);
	for (int i = 0; i < 150; i++) {
		struct ibv_recv_wr w[6];
		struct entry e[8];
		int n = 1 + rnd(5), done = 0;
		uint32_t at = srq->pos;

		for (int k = 0; k < n; k++)
			w[k] = (struct ibv_recv_wr){ .wr_id = rnd64(), .sg_list = s, .num_sge = rnd(MAX_SGE + 1), .next = k + 1 < n ? &w[k + 1] : NULL };
		if (i % 9 == 8)
			w[n - 1].num_sge = MAX_SGE + 1;
		/* Like the device's driver, the library counts an empty queue as a full one. */
		if (i % 10 == 5 && ntags)
			bnxt_limit(srq, i % 7, i);
		bnxt_srq_recv("srq", srq, w);
		for (; at != srq->pos; at = (at + 1) % srq->slots)
			memcpy(&tags[ntags++], (uint8_t *)srq->k->buf + at * srq->stride + 8, 4);
		while (done < 8 && ntags > 1 && rnd(4)) {
			int k = rnd(ntags);

			e[done] = (struct entry){ .of = b[rnd(2)]->q.id, .type = TYPE_RECV_RC, .flags = 1 | (rnd(2) ? RECV_IMM : 0), .words = { rnd(5000), rnd64() }, .index = tags[k] };
			if (rnd(30) == 0)
				e[done].status = 1 + rnd(7);
			tags[k] = tags[--ntags];
			done++;
		}
		bnxt_poll("srq", cq, e, done, MAX_LIST);
	}
}

static void outstanding(struct bqp *b, int n)
{
	struct ibv_sge s = piece(0x100, 64);

	for (int i = 0; i < n; i++) {
		struct ibv_send_wr w = work(IBV_WR_SEND, i % 2 ? IBV_SEND_SIGNALED : 0, &s, 1);
		struct ibv_recv_wr r = { .wr_id = rnd64(), .sg_list = &s, .num_sge = 1 };

		bnxt_send("flush", b, &w);
		bnxt_recv("flush", b, &r);
	}
}

/* The library completes all requests of a QP that has stopped. It completes the oldest request with the error of a later
 * one, so that the oldest one fails here. */
void flushes(void)
{
	struct cq *scq = bnxt_cq(64), *rcq = bnxt_cq(64);

	for (int i = 0; i < 4; i++) {
		struct bqp *b = bnxt_qp(IBV_QPT_RC, scq, i % 2 ? rcq : scq, NULL, CAP, false);
		struct entry e[2];

		bnxt_ready(b);
		outstanding(b, 8);
		if (i / 2) {
			bnxt_modify(b, IBV_QPS_ERR, 0);
			e[0] = ended(b);
			bnxt_poll("end", scq, e, 1, 4);
		} else {
			finish(b);
			outstanding(b, 8);
			sent(b, 5, &e[0]);
			e[1] = ended(b);
			bnxt_poll("end", scq, e, 2, 4);
		}
		if (i % 2) {
			e[0] = ended(b);
			bnxt_poll("end", rcq, e, 1, 3);
		}
		bnxt_poll("rest", scq, NULL, 0, MAX_LIST);
		bnxt_poll("rest", rcq, NULL, 0, MAX_LIST);
		if (OLD)
			continue; /* it does not post to a QP that has stopped */
		b->first = b->last;
		b->recv_done = b->recv_pos;
		outstanding(b, 3);
		bnxt_poll("late", scq, NULL, 0, 2);
		bnxt_poll("late", rcq, NULL, 0, 2);
		bnxt_poll("rest", scq, NULL, 0, MAX_LIST);
		bnxt_poll("rest", rcq, NULL, 0, MAX_LIST);
	}
}

/* QPs that are used again. Version 44 of rdma-core leaves the indices as they were. */
void resets(void)
{
	struct cq *cq = bnxt_cq(64);
	struct bqp *b = bnxt_qp(IBV_QPT_RC, cq, cq, NULL, CAP, false);

	for (int i = 0; i < (OLD ? 1 : 12); i++) {
		struct ibv_sge s = piece(0x100, 4000);
		struct ibv_send_wr w = work(IBV_WR_SEND, IBV_SEND_SIGNALED, &s, 1);
		struct entry e;

		bnxt_ready(b);
		outstanding(b, 1 + i % 9);
		/* More passes around the ring than one end in both epochs. */
		for (int k = 0; k < 20 * (i % 3); k++) {
			bnxt_send("reset", b, &w);
			finish(b);
		}
		if (!sent(b, 0, &e))
			finish(b);
		else
			bnxt_poll("reset", cq, &e, 1, 1);
		bnxt_modify(b, IBV_QPS_RESET, 0);
		bnxt_poll("reset", cq, NULL, 0, MAX_LIST);
	}
}

/* Doorbells of CQs of several sizes, and changes of the size. */
void cqs(void)
{
	static const int entries[] = { 1, 10, 64, 4090, 4096, 8191 };
	struct ibv_sge s = piece(0x100, 64);

	for (unsigned i = 0; i < sizeof(entries) / sizeof(*entries); i++) {
		struct cq *cq = bnxt_cq(entries[i]);
		struct bqp *b = bnxt_qp(IBV_QPT_RC, cq, cq, NULL, CAP, true);

		bnxt_ready(b);
		for (int k = 0; k < 80; k++) {
			struct ibv_send_wr w = work(IBV_WR_SEND, 0, &s, 1);
			struct entry e[2];

			if (k % 3 == 1)
				bnxt_arm(cq, k % 2, k / 3);
			bnxt_send("cq", b, &w);
			sent(b, 0, &e[0]);
			bnxt_poll("cq", cq, e, 1, 1);
			/* Version 44 of rdma-core does not change sizes. */
			if (!OLD && k % 37 == 36) {
				bnxt_send("cq", b, &w);
				sent(b, 0, &e[0]);
				e[1] = (struct entry){ .type = TYPE_CUTOFF, .words[0] = 0 };
				e[1].resize_toggle = k % 4;
				bnxt_resize(cq, 20 + 13 * k, e, 2);
				bnxt_poll("cq", cq, NULL, 0, 2);
			}
		}
	}
}

static struct ibv_send_wr random_wr(struct ibv_sge *s)
{
	struct ibv_send_wr w = { .wr_id = rnd64(), .opcode = ops[rnd(NOPS)], .sg_list = s, .num_sge = rnd(MAX_SGE + 1) };

	w.send_flags = rnd(8) & (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
	for (int i = 0; i <= MAX_SGE; i++)
		s[i] = (struct ibv_sge){ (uintptr_t)DATA + rnd(DATA_LEN / 2), rnd(8) ? 1 + rnd(100000) : 0, rnd(4) ? mr->lkey : (uint32_t)rnd64() };
	switch (w.opcode) {
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		w.num_sge = 1;
		s[0].length = 8;
		w.wr.atomic.remote_addr = rnd64() & ~7ull;
		w.wr.atomic.compare_add = rnd64();
		w.wr.atomic.swap = rnd64();
		w.wr.atomic.rkey = rnd64();
		return w;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		w.imm_data = rnd64();
		/* fall through */
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_READ:
		w.wr.rdma.remote_addr = rnd64();
		w.wr.rdma.rkey = rnd64();
		break;
	case IBV_WR_SEND_WITH_IMM:
		w.imm_data = rnd64();
		break;
	default:
		break;
	}
	if (w.opcode != IBV_WR_RDMA_READ && rnd(3) == 0) {
		w.send_flags |= IBV_SEND_INLINE;
		for (int i = 0; i < MAX_SGE; i++)
			s[i].length = rnd(17);
		if (OLD) {
			s[0].length = rnd(MAX_INLINE + 1);
			w.num_sge = 1;
		}
	}
	/* Sometimes a refused request, but not with inline data, whose elements do not count. */
	if (rnd(50) == 0 && !(w.send_flags & IBV_SEND_INLINE))
		w.num_sge = MAX_SGE + 1;
	return w;
}

/* Lists of random requests. The device completes some of them after each, and some entries complete several. */
void random_lists(void)
{
	struct cq *cq = bnxt_cq(64);
	struct bqp *b = bnxt_qp(IBV_QPT_RC, cq, cq, NULL, CAP, false);
	struct entry e[MAX_LIST];

	bnxt_ready(b);
	for (int i = 0; i < nrandom; i++) {
		struct ibv_sge s[4][MAX_SGE + 1];
		struct ibv_send_wr w[4];
		int n = 1 + rnd(4), done = 0;

		for (int k = 0; k < n; k++) {
			w[k] = random_wr(s[k]);
			w[k].next = k + 1 < n ? &w[k + 1] : NULL;
		}
		/* The last one is signaled, so that the queue empties. */
		w[n - 1].send_flags |= IBV_SEND_SIGNALED;
		bnxt_send("random", b, w);
		/* There is always room for four requests, and then for another four. */
		n = b->last - b->first > 8 ? MAX_LIST : (int)rnd(4);
		while (done < n && sent(b, 0, &e[done]))
			if (rnd(3) || done + 1 == n || b->last - b->first < 2)
				done++;
		bnxt_poll("random", cq, e, done, 1 + rnd(done + 1));
		bnxt_poll("rest", cq, NULL, 0, MAX_LIST);
	}
}
