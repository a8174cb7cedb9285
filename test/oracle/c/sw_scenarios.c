/* SPDX-License-Identifier: Apache-2.0 */

#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "sw.h"

/* rxe has one slot more, siw a power of two. */
#define CAP (struct ibv_qp_cap){ .max_send_wr = 15, .max_recv_wr = 15, .max_send_sge = 4, .max_recv_sge = 3, .max_inline_data = 64 }
#define ALL MAX_LIST

/* The features of the driver. siw has neither immediate data nor atomics. */
static const int ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND_WITH_INV,
	IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD };

static int nops(void)
{
	return is_siw() ? 4 : 8;
}

static bool is_atomic(int op)
{
	return op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* can_flag excludes flags that siw ignores, changes, or fails with. */
static bool can_flag(int op, int flags)
{
	if (flags & IBV_SEND_INLINE && (is_atomic(op) || op == IBV_WR_RDMA_READ))
		return false;
	if (is_siw() && op == IBV_WR_RDMA_READ)
		return !(flags & IBV_SEND_FENCE) && flags & IBV_SEND_SIGNALED;
	return !(is_siw() && op == IBV_WR_SEND_WITH_INV && flags & IBV_SEND_INLINE);
}

static struct ibv_send_wr sw_work(int op, int flags, struct ibv_sge *s, int n)
{
	struct ibv_send_wr w = work(op, flags, s, n);

	/* libsiw takes the key to invalidate from the field of the peer's key. */
	if (is_siw() && op == IBV_WR_SEND_WITH_INV)
		w.wr.rdma.rkey = w.invalidate_rkey;
	return w;
}

static void opcodes_and_flags(struct qp *q)
{
	struct ibv_sge s[4] = { piece(0x100, 40), piece(0x200, 8), piece(0x301, 5), piece(0x400, 2) };

	for (int i = 0; i < nops(); i++)
		for (int f = 0; f < 16; f++) {
			struct ibv_send_wr w = sw_work(ops[i], f, is_atomic(ops[i]) ? s + 1 : s, 1);

			if (can_flag(ops[i], f))
				sw_send("flags", q, &w, NULL, ALL);
		}
	for (int n = 0; n <= 7; n++) {
		struct ibv_sge all[7] = { s[0], s[1], s[2], s[3], s[0], s[1], s[2] };
		struct ibv_send_wr w = sw_work(IBV_WR_SEND, IBV_SEND_SIGNALED, all, n);

		if (is_siw() && n > 4 && n <= SIW_MAX_SGE)
			continue; /* libsiw does not enforce the requested limits */
		sw_send("elements", q, &w, NULL, ALL);
		w = sw_work(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, all, n);
		sw_send("elements", q, &w, NULL, ALL);
	}
	for (uint32_t len = 1; len < 200; len += len < 20 ? 1 : 11) {
		struct ibv_sge one = piece(0x500 + len, len);
		struct ibv_send_wr w = sw_work(IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_INLINE, &one, 1);

		sw_send("inline", q, &w, NULL, ALL);
	}
}

/* Lists that fit, lists that do not, a device that takes some or nothing. */
static void lists(struct qp *q)
{
	static const int takes[] = { 0, 1, 2, 0, 5, ALL, 0, 3, ALL };
	struct ibv_sge s[9];

	for (int i = 0; i < 9; i++)
		s[i] = piece(0x100 * i, 40 + i);
	for (int i = 0; i < 90; i++) {
		struct ibv_send_wr w[5];
		int n = 1 + i % 5;

		for (int k = 0; k < n; k++) {
			w[k] = sw_work(k % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, IBV_SEND_SIGNALED, s, k % 2);
			w[k].next = k + 1 < n ? &w[k + 1] : NULL;
		}
		/* An opcode that both refuse. */
		if (i % 7 == 3 && is_siw())
			w[n - 1].opcode = IBV_WR_SEND_WITH_IMM;
		else if (i % 7 == 3)
			w[n - 1].num_sge = 9;
		sw_send("list", q, w, NULL, takes[i % 9]);
	}
}

static void receives(struct qp *q, struct srq *s)
{
	struct ibv_sge e[10];

	for (int i = 0; i < 10; i++)
		e[i] = piece(0x1000 * i, 5 + 7 * i);
	for (int i = 0; i < 40; i++) {
		struct ibv_recv_wr w[5];
		int n = 1 + i % 5;

		for (int k = 0; k < n; k++)
			w[k] = (struct ibv_recv_wr){ .wr_id = 0x5000 + 16 * i + k, .sg_list = e, .num_sge = 1 + (i + k) % 3, .next = k + 1 < n ? &w[k + 1] : NULL };
		if (i % 11 == 5)
			w[n - 1].num_sge = !is_siw() ? 4 : 10;
		if (s)
			sw_srq_recv("recv", s, w, i % 4 == 3 ? ALL : i % 4);
		else
			sw_recv("recv", q, w, i % 4 == 3 ? ALL : i % 4);
	}
}

static void rxe_completions(struct cq *c, uint32_t qpn)
{
	static const int opcodes[] = { IBV_WC_SEND, IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ, IBV_WC_COMP_SWAP, IBV_WC_FETCH_ADD, IBV_WC_BIND_MW,
		IBV_WC_LOCAL_INV, IBV_WC_RECV, IBV_WC_RECV_RDMA_WITH_IMM };

	for (int i = 0; i < 120; i++) {
		struct ib_uverbs_wc e[3];
		int n = 1 + i % 3;

		memset(e, 0, sizeof(e));
		for (int k = 0; k < n; k++) {
			e[k] = (struct ib_uverbs_wc){
				.wr_id = rnd64(), .status = i % 5 == 4 ? rnd(22) : 0, .opcode = opcodes[(i + k) % 9], .vendor_err = 0, .byte_len = rnd64(),
				.ex.imm_data = rnd64(), .qp_num = qpn, .src_qp = rnd(1 << 24), .pkey_index = rnd(4), .slid = rnd64(), .sl = rnd(16), .dlid_path_bits = rnd(128) };
			/* The kernel's flags for GRH, immediate data and an invalidated key. */
			e[k].wc_flags = e[k].opcode & IBV_WC_RECV ? (int[]){ 0, 1, 2, 3, 4, 5 }[rnd(6)] : 0;
		}
		sw_poll("completion", c, e, sizeof(*e), n, 1 + i % 4);
		if (i % 4 < n - 1)
			sw_poll("rest", c, NULL, 0, 0, 4);
		if (i % 20 == 19)
			sw_arm(c, i % 40 == 19);
	}
}

static void siw_completions(struct cq *c, uint32_t qpn)
{
	for (int i = 0; i < 120; i++) {
		struct siw_cqe e[3];
		int n = 1 + i % 3;

		memset(e, 0, sizeof(e));
		for (int k = 0; k < n; k++)
			e[k] = (struct siw_cqe){ .id = rnd64(), .flags = SIW_WQE_VALID, .opcode = (i + k) % 9, .status = i % 2 ? rnd(SIW_NUM_WC_STATUS) : 0,
				.bytes = rnd64(), .imm_data = rnd64(), .qp_id = qpn };
		sw_poll("completion", c, e, sizeof(*e), n, 1 + i % 4);
		if (i % 4 < n - 1)
			sw_poll("rest", c, NULL, 0, 0, 4);
		if (i % 20 == 19)
			sw_arm(c, 0); /* purerdma arms for all completions instead of only the solicited ones */
	}
}

void fixed(void)
{
	struct cq *scq = make_cq(31), *rcq = make_cq(31);

	for (int sig = 0; sig < 2; sig++) {
		struct qp *q = sw_qp(IBV_QPT_RC, scq, rcq, NULL, CAP, sig);

		ready(q);
		opcodes_and_flags(q);
		lists(q);
		receives(q, NULL);
		if (!is_siw())
			rxe_completions(sig ? scq : rcq, q->ibv->qp_num);
		else
			siw_completions(sig ? scq : rcq, q->ibv->qp_num);
	}
}

/* Only rxe has them. */
void datagrams(void)
{
	struct cq *cq = make_cq(31);
	struct qp *q = sw_qp(IBV_QPT_UD, cq, cq, NULL, CAP, false);
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 64 } };
	struct ibv_sge s[2] = { piece(0x100, 40), piece(0x200, 20) };
	struct ibv_ah *ah;

	ready(q);
	memset(a.grh.dgid.raw + 10, 0xff, 6);
	ah = make_ah("ah0", &a);
	if (!ah)
		DIE("ibv_create_ah");
	for (int f = 0; f < 16; f++)
		for (int op = IBV_WR_SEND; op <= IBV_WR_SEND_WITH_IMM; op++) {
			struct ibv_send_wr w = work(op, f, s, f & IBV_SEND_INLINE ? 1 : f % 3);

			w.wr.ud.ah = ah;
			w.wr.ud.remote_qpn = 0x777 + f;
			w.wr.ud.remote_qkey = 0x11111111;
			sw_send("ud", q, &w, "ah0", ALL);
		}
	receives(q, NULL);
}

void shared(void)
{
	struct cq *cq = make_cq(31);
	struct srq *s = sw_srq(15, 3);
	struct qp *q = sw_qp(IBV_QPT_RC, cq, cq, s, (struct ibv_qp_cap){ 15, 0, 1, 0, 0 }, false);

	ready(q);
	receives(q, s);
}

/* Only rxe has them. */
void windows(void)
{
	struct cq *cq = make_cq(31);
	struct qp *q = sw_qp(IBV_QPT_RC, cq, cq, NULL, CAP, false);
	struct ibv_mw *mw = make_mw("mw0", IBV_MW_TYPE_2);

	ready(q);
	for (int f = 0; f < 8; f++) {
		struct ibv_send_wr w = work(IBV_WR_BIND_MW, f, NULL, 0);

		w.bind_mw.mw = mw;
		w.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		w.bind_mw.bind_info = (struct ibv_mw_bind_info){ .mr = mr, .addr = (uintptr_t)DATA + 64 * f, .length = 100 + f, .mw_access_flags = f << 1 };
		sw_send("bind", q, &w, NULL, ALL);
		w = work(IBV_WR_LOCAL_INV, f, NULL, 0);
		sw_send("local_inv", q, &w, NULL, ALL);
	}
}

void random_lists(void)
{
	struct cq *cq = make_cq(31);
	struct qp *q = sw_qp(IBV_QPT_RC, cq, cq, NULL, CAP, false);

	ready(q);
	for (int i = 0; i < nrandom; i++) {
		struct ibv_send_wr w[4];
		struct ibv_sge s[4][4];
		int n = 1 + rnd(4);

		for (int k = 0; k < n; k++) {
			int op = ops[rnd(nops())], flags;

			do
				flags = rnd(16);
			while (!can_flag(op, flags));
			for (int j = 0; j < 4; j++)
				s[k][j] = piece(rnd(DATA_LEN / 2), flags & IBV_SEND_INLINE ? 1 + rnd(16) : 1 + rnd(5000)); /* purerdma leaves out empty elements */
			if (is_atomic(op))
				s[k][0].length = 8;
			w[k] = sw_work(op, flags, s[k], is_atomic(op) || op == IBV_WR_RDMA_READ ? 1 : flags & IBV_SEND_INLINE ? 1 + (int)rnd(4) : (int)rnd(5));
			w[k].wr_id = rnd64();
			if (is_atomic(op)) {
				w[k].wr.atomic.remote_addr = rnd64() & ~7ull;
				w[k].wr.atomic.compare_add = rnd64();
				w[k].wr.atomic.swap = rnd64();
			} else if (op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_READ || op == IBV_WR_RDMA_WRITE_WITH_IMM) {
				w[k].wr.rdma.remote_addr = rnd64();
				w[k].wr.rdma.rkey = rnd64();
			}
			w[k].next = k + 1 < n ? &w[k + 1] : NULL;
		}
		sw_send("random", q, w, NULL, rnd(3) ? rnd(5) : ALL);
	}
}
