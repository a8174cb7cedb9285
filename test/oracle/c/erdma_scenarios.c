/* SPDX-License-Identifier: Apache-2.0 */

#define _GNU_SOURCE
#include <string.h>

#include "erdma.h"

/* The device has QPs of at least this size. */
#define CAP (struct ibv_qp_cap){ .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 6, .max_recv_sge = 1, .max_inline_data = 96 }
enum { MAX_SGE = 6, MAX_INLINE = 96 };

/* Version 61 of rdma-core was the first with SEND_WITH_INV. */
static const int ops[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
	IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV };
enum { NOPS = sizeof(ops) / sizeof(*ops) - (RDMA_CORE < 61) };

static bool is_atomic(int op)
{
	return op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* one_element reports whether an operation has exactly one element. */
static bool one_element(int op)
{
	return is_atomic(op) || op == IBV_WR_RDMA_READ;
}

static void all_flags(struct qp *q)
{
	struct ibv_sge s[2] = { piece(0x100, 40), piece(0x200, 8) };

	for (int i = 0; i < NOPS; i++)
		for (int f = 0; f < 16; f++) {
			struct ibv_send_wr w = work(ops[i], f, is_atomic(ops[i]) ? s + 1 : s, 1);

			if (f & IBV_SEND_INLINE && one_element(ops[i]))
				continue;
			erdma_send("flags", q, &w);
			finish(q);
		}
}

static void elements(struct qp *q)
{
	struct ibv_sge s[MAX_SGE + 1] = { piece(0x100, 40), piece(0x2001, 8), piece(0x301, 0), piece(0x400, 70000), piece(0, 1), piece(5, 4096), piece(9, 9) };

	for (int i = 0; i < NOPS; i++)
		for (int n = 0; n <= MAX_SGE + 1; n++) {
			struct ibv_send_wr w = work(ops[i], IBV_SEND_SIGNALED, s, n);

			if (one_element(ops[i]))
				continue;
			erdma_send("elements", q, &w);
			finish(q);
		}
}

static void inlined(struct qp *q)
{
	for (int i = 0; i < NOPS; i++)
		for (uint32_t len = 0; len <= MAX_INLINE + 1; len += len < 4 || len > 90 ? 1 : 7) {
			struct ibv_sge s[3] = { piece(0x500 + len, len / 2), piece(0x600, 0), piece(0x700, len - len / 2) };
			struct ibv_send_wr w = work(ops[i], IBV_SEND_SIGNALED | IBV_SEND_INLINE, s, 3);

			if (one_element(ops[i]))
				continue;
			if (len % 2) {
				s[0].length = len;
				w.num_sge = 1;
			}
			erdma_send("inline", q, &w);
			finish(q);
		}
}

/* Lists, some with a request that is refused. */
static void lists(struct qp *q)
{
	struct ibv_sge s[MAX_SGE + 1];

	for (int i = 0; i <= MAX_SGE; i++)
		s[i] = piece(0x100 * i, 40 + i);
	for (int i = 0; i < 60; i++) {
		struct ibv_send_wr w[5];
		int n = 1 + i % 5;

		for (int k = 0; k < n; k++) {
			w[k] = work(k % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, k == n - 1 ? IBV_SEND_SIGNALED : 0, s, (i + k) % (MAX_SGE + 1));
			w[k].next = k + 1 < n ? &w[k + 1] : NULL;
		}
		if (i % 7 == 3)
			w[n - 1].opcode = IBV_WR_LOCAL_INV;
		if (i % 7 == 5)
			w[n - 1].num_sge = MAX_SGE + 1;
		erdma_send("list", q, w);
		finish(q);
	}
}

static void receives(struct qp *q)
{
	struct ibv_sge s[2] = { piece(0x1000, 500), piece(0x2000, 7) };

	for (int i = 0; i < 40; i++) {
		struct ibv_recv_wr w[5];
		struct entry e;
		int n = 1 + i % 5;

		for (int k = 0; k < n; k++)
			w[k] = (struct ibv_recv_wr){ .wr_id = 0x5000 + 16 * i + k, .sg_list = s, .num_sge = (i + k) % 3 != 0, .next = k + 1 < n ? &w[k + 1] : NULL };
		if (i % 11 == 5)
			w[n - 1].num_sge = 2;
		erdma_recv("recv", q, w);
		for (int k = 0; k < i % 4 && received(q, OP_RECEIVE, 100 + k, &e); k++)
			erdma_poll("recv", q->rcq, &e, 1, 1);
		if (i % 4 == 3)
			finish(q);
	}
}

/* Requests of the most blocks, and receives, until no more fit. */
static void fill(struct qp *q)
{
	struct ibv_sge s[MAX_SGE];
	struct ibv_send_wr w;
	struct ibv_recv_wr r = { .sg_list = s, .num_sge = 1 };

	for (int i = 0; i < MAX_SGE; i++)
		s[i] = piece(0x100 * i, 40 + i);
	w = work(IBV_WR_SEND, IBV_SEND_SIGNALED, s, 1);
	erdma_send("sync", q, &w);
	finish(q);
	do
		w = work(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, s, MAX_SGE);
	while (!erdma_send("full", q, &w));
	do
		r.wr_id++;
	while (!erdma_recv("full", q, &r));
	finish(q);
}

void operations(void)
{
	struct cq *scq = make_cq(63), *rcq = make_cq(100);

	for (int sig = 0; sig < 2; sig++) {
		struct qp *q = erdma_qp(scq, rcq, CAP, sig);

		ready(q);
		all_flags(q);
		lists(q);
		if (!sig) {
			elements(q);
			inlined(q);
			receives(q);
		}
		fill(q);
		erdma_arm(scq, 0);
		erdma_arm(rcq, 1);
	}
}

/* Every store to the registers and the doorbell records. */
void trace(void)
{
	struct cq *cq = make_cq(63);
	struct qp *q = erdma_qp(cq, cq, CAP, false);

	ready(q);
	tracing = true;
	lists(q);
	receives(q);
	tracing = false;
}

/* The numbers of the QPs also differ in the doorbells that they select. */
void sizes(void)
{
	static const uint32_t sends[] = { 1, 2, 3, 4, 5, 16, 100, 128, 129, 1024, 8192 }, recvs[] = { 1, 2, 100, 128, 129, 8192 };
	struct cq *cq = make_cq(1);
	struct ibv_sge s = piece(0x100, 64);

	make_cq(64);
	make_cq(65);
	make_cq(128);
	make_cq(4097);
	for (unsigned i = 0; i < sizeof(sends) / sizeof(*sends); i++)
		for (unsigned k = i % 2; k < sizeof(recvs) / sizeof(*recvs); k += 2) {
			struct ibv_qp_cap cap = { .max_send_wr = sends[i], .max_recv_wr = recvs[k], .max_send_sge = 1 + i % MAX_SGE, .max_recv_sge = 1, .max_inline_data = 8 * i };
			struct ibv_send_wr w = work(IBV_WR_SEND, IBV_SEND_SIGNALED, &s, 1);
			struct ibv_recv_wr r = { .wr_id = i, .sg_list = &s, .num_sge = 1 };
			struct qp *q = erdma_qp(cq, cq, cap, false);

			ready(q);
			erdma_send("size", q, &w);
			erdma_recv("size", q, &r);
			finish(q);
		}
}

/* Requests of many sizes, at many places of the ring. */
static void around(struct qp *q)
{
	struct ibv_sge s[MAX_SGE], eight = piece(0x100, 8);

	for (int i = 0; i < MAX_SGE; i++)
		s[i] = piece(0x1000 * i, 50 + i);
	for (uint32_t i = 0; i < 8 * q->sq_slots; i++) {
		struct ibv_send_wr w = work(i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, s, i / 2 % (MAX_SGE + 1));
		struct ibv_recv_wr r = { .wr_id = i, .sg_list = s, .num_sge = 1 };

		if (i % 5 == 3) {
			w.send_flags |= IBV_SEND_INLINE;
			s[0].length = i % (MAX_INLINE + 1);
			w.num_sge = 1;
		}
		if (i % 5 == 4)
			w = work(ops[4 + i % 3], IBV_SEND_SIGNALED, &eight, 1);
		erdma_send("wrap", q, &w);
		erdma_recv("wrap", q, &r);
		finish(q);
	}
}

/* A small ring, before and after the 16 bits of the numbers of slots are used up. */
void wrap(void)
{
	struct ibv_qp_cap cap = CAP;
	struct cq *cq = make_cq(64);
	struct ibv_sge s = piece(0x100, 64);
	struct ibv_send_wr w = work(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, &s, 1);
	struct qp *q;

	cap.max_send_wr = cap.max_recv_wr = 8;
	q = erdma_qp(cq, cq, cap, false);
	ready(q);
	around(q);
	many("2^16_blocks", q, 32700, 8, &w);
	around(q);
}

/* Past the 24 bits of the consumer index of a CQ. */
void counters(void)
{
	struct cq *cq = make_cq(64);
	struct qp *q = erdma_qp(cq, cq, CAP, false);
	struct ibv_sge s = piece(0x100, 64);
	struct ibv_send_wr w = work(IBV_WR_SEND, IBV_SEND_SIGNALED, &s, 1);

	ready(q);
	many("2^16_entries", q, 65530, 16, &w);
	for (int i = 0; i < 12; i++) {
		many("2^16_entries", q, 1, 1, &w);
		erdma_arm(cq, i % 2);
	}
	many("2^24_entries", q, (1 << 24) - 65550, 16, &w);
	for (int i = 0; i < 20; i++) {
		many("2^24_entries", q, 1, 1, &w);
		erdma_arm(cq, i % 2);
	}
}

/* Each status of a request and of a receive, and all kinds of receives. */
void statuses(void)
{
	static const int kinds[] = { OP_RECEIVE, OP_RECV_IMM, OP_RECV_INV, OP_RSP_SEND_IMM };
	struct cq *cq = make_cq(64);
	struct qp *q = erdma_qp(cq, cq, CAP, false);
	struct ibv_sge s = piece(0x100, 64);

	ready(q);
	for (int syndrome = 0; syndrome < 256; syndrome += syndrome < 20 ? 1 : 59)
		for (int i = 0; i < NOPS; i++) {
			struct ibv_send_wr w = work(ops[i], IBV_SEND_SIGNALED, &s, 1);
			struct ibv_recv_wr r = { .wr_id = rnd64(), .sg_list = &s, .num_sge = 1 };
			struct entry e[2];

			s.length = is_atomic(ops[i]) ? 8 : 64;
			erdma_send("status", q, &w);
			erdma_recv("status", q, &r);
			if (!sent(q, &e[0]) || !received(q, kinds[i % 4], rnd64(), &e[1]))
				DIE("nothing posted");
			e[0].syndrome = e[1].syndrome = syndrome;
			e[0].size = rnd64();
			e[1].imm = rnd64();
			erdma_poll("status", cq, e, 2, 3);
		}
}

void events(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	struct cq *first = make_cq_on(channel, 64), *cq = make_cq_on(channel, 64);
	struct qp *q = erdma_qp(first, cq, CAP, false);
	struct ibv_sge s = piece(0x100, 64);

	ready(q);
	for (int i = 0; i < 300; i++) {
		struct ibv_recv_wr r = { .wr_id = i, .sg_list = &s, .num_sge = 1 };

		erdma_arm(cq, i % 3 == 1);
		if (i % 5 == 4)
			event(cq, channel);
		if (i % 7 == 6) {
			erdma_recv("event", q, &r);
			finish(q);
		}
	}
	erdma_arm(first, 0);
}

static struct ibv_send_wr random_wr(struct ibv_sge *s)
{
	struct ibv_send_wr w = { .wr_id = rnd64(), .opcode = ops[rnd(NOPS)], .sg_list = s, .num_sge = rnd(MAX_SGE + 1) };

	w.send_flags = rnd(8) & (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
	for (int i = 0; i <= MAX_SGE; i++)
		s[i] = (struct ibv_sge){ (uintptr_t)DATA + rnd(DATA_LEN / 2), rnd(8) ? 1 + rnd(100000) : 0, rnd(4) ? mr->lkey : (uint32_t)rnd64() };
	if (one_element(w.opcode))
		w.num_sge = 1;
	switch (w.opcode) {
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
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
	case IBV_WR_SEND_WITH_INV:
		w.invalidate_rkey = rnd64();
		break;
	default:
		break;
	}
	if (w.opcode != IBV_WR_RDMA_READ && rnd(3) == 0) {
		w.send_flags |= IBV_SEND_INLINE;
		for (int i = 0; i < MAX_SGE; i++)
			s[i].length = rnd(20);
	}
	/* Sometimes a refused request, but not with inline data, whose elements do not count. */
	if (rnd(50) == 0 && !(w.send_flags & IBV_SEND_INLINE) && w.opcode != IBV_WR_RDMA_READ)
		w.num_sge = MAX_SGE + 1;
	return w;
}

/* Lists of random requests. The device completes some of them after each. */
void random_lists(void)
{
	struct cq *cq = make_cq(64);
	struct qp *q = erdma_qp(cq, cq, CAP, false);
	struct entry e[MAX_LIST];

	ready(q);
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
		erdma_send("random", q, w);
		/* There is always room for four requests, and then for another four. */
		n = q->sq_pos - q->sq_done > q->sq_slots / 16 ? MAX_LIST : (int)rnd(4);
		while (done < n && sent(q, &e[done])) {
			e[done].size = rnd64();
			e[done++].syndrome = rnd(10) ? 0 : rnd(20);
		}
		erdma_poll("random", cq, e, done, 1 + rnd(done + 1));
		erdma_poll("rest", cq, NULL, 0, MAX_LIST);
	}
}
