/* SPDX-License-Identifier: Apache-2.0 */

/* Long runs and random lists on RC. */
#define _GNU_SOURCE
#include <string.h>

#include "mlx5.h"
#include "scenario.h"

#define CAP (struct ibv_qp_cap){ .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 3, .max_inline_data = 200 }

/* WQEs of all sizes start at every slot. */
static void around(struct qp *q)
{
	struct ibv_sge s[4] = { piece(0x100, 200), piece(0x1000, 3000), piece(0x2000, 17), piece(0x3000, 5) };

	for (uint32_t i = 0; i < q->sq_slots + 20; i++) {
		struct ibv_send_wr two[2];
		struct cqe e;
		uint32_t at;

		s[0].length = 180 + i % 60;
		post_one("wrap_blueflame", q, IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_INLINE, s, 1);
		post_one("wrap_elements", q, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, s, 4);
		two[0] = work(IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_INLINE, s, 1);
		two[1] = work(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, s, 2 + i % 3);
		two[0].next = &two[1];
		at = q->sq_pos;
		send("wrap_list", q, two, NULL);
		e = requester(q, last_wqe(q, at), MLX5_OPCODE_RDMA_WRITE, 0);
		done(q);
		poll("wrap_list", q->scq, &e, 1, 4, 0, 0);
	}
}

/* A small ring, before and after the 16 bits of the WQE index are used up. */
void wrap(void)
{
	struct cq *cq = make_cq(63);
	struct qp *q = mlx5_qp(IBV_QPT_RC, cq, cq, NULL, CAP, false);
	struct ibv_sge s = piece(0x100, 64);
	struct ibv_send_wr w = work(IBV_WR_SEND, IBV_SEND_SIGNALED, &s, 1);

	ready(q);
	around(q);
	many("65536_wqebbs", q, 66000, 8, &w, MLX5_OPCODE_SEND);
	around(q);
}

/* Past the 16 and 24 bits of the completion index. */
void counters(void)
{
	struct cq *cq = make_cq(63);
	struct qp *q = mlx5_qp(IBV_QPT_RC, cq, cq, NULL, CAP, false);
	struct ibv_sge s = piece(0x100, 64);
	struct ibv_send_wr w = work(IBV_WR_SEND, IBV_SEND_SIGNALED, &s, 1);

	ready(q);
	many("2^16_cqes", q, 65000, 16, &w, MLX5_OPCODE_SEND);
	for (int i = 0; i < 600; i++)
		post_one("2^16_cqes", q, IBV_WR_SEND, IBV_SEND_SIGNALED, &s, i % 2);
	arm(cq, 0);
	many("2^24_cqes", q, (1 << 24) - 65800, 16, &w, MLX5_OPCODE_SEND);
	for (int i = 0; i < 700; i++)
		post_one("2^24_cqes", q, IBV_WR_SEND, IBV_SEND_SIGNALED, &s, i % 2);
	arm(cq, 1);
}

static struct ibv_send_wr random_wr(struct ibv_sge *s)
{
	static const int ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV };
	struct ibv_send_wr w = { .wr_id = rnd64(), .opcode = ops[rnd(8)], .sg_list = s, .num_sge = rnd(5) };
	bool can_inline = true;

	w.send_flags = rnd(8) & (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
	for (int i = 0; i < 4; i++)
		s[i] = (struct ibv_sge){ (uintptr_t)DATA + rnd(DATA_LEN / 2), rnd(8) ? 1 + rnd(3000) : 0, rnd(4) ? mr->lkey : (uint32_t)rnd64() };
	switch (w.opcode) {
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		w.num_sge = 1;
		s[0].length = 8;
		w.wr.atomic.remote_addr = rnd64() & ~7ull;
		w.wr.atomic.compare_add = rnd64();
		w.wr.atomic.swap = rnd64();
		w.wr.atomic.rkey = rnd64();
		can_inline = false;
		break;
	case IBV_WR_RDMA_READ:
		can_inline = false;
		/* fall through */
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_RDMA_WRITE:
		w.imm_data = rnd64();
		w.wr.rdma.remote_addr = rnd64();
		w.wr.rdma.rkey = rnd64();
		break;
	default:
		w.imm_data = rnd64();
	}
	if (can_inline && rnd(3) == 0) {
		w.send_flags |= IBV_SEND_INLINE;
		w.num_sge = rnd(4);
		for (int i = 0; i < 4; i++)
			s[i].length = rnd(80);
	}
	/* Sometimes post a refused request, but not with inline data, of which libmlx5 counts
	 * the elements. Callers of other interfaces have no such elements. */
	if (rnd(100) == 0 && !(w.send_flags & IBV_SEND_INLINE))
		w.num_sge = 7;
	return w;
}

/* A signaled request, and the number of requests before it. */
struct signaled {
	uint32_t at, count;
	int op;
};

static struct signaled waiting[256];
static int nwaiting;
static uint32_t nposted, ncompleted; /* requests */

static void random_sends(struct qp *q)
{
	struct ibv_send_wr w[4];
	struct ibv_sge s[4][8];
	int n = 1 + rnd(4);
	uint32_t at = q->sq_pos;

	memset(s, 0, sizeof(s));
	for (int k = 0; k < n; k++) {
		w[k] = random_wr(s[k]);
		w[k].next = k + 1 < n ? &w[k + 1] : NULL;
	}
	send("random", q, w, NULL);
	for (int k = 0; k < n && at != q->sq_pos; at += wqe_slots(q, at), k++, nposted++)
		if (w[k].send_flags & IBV_SEND_SIGNALED)
			waiting[nwaiting++] = (struct signaled){ at, nposted, mlx_opcode[w[k].opcode] };
}

/* One completion for all requests, or one for each signaled request. */
static void random_completions(struct qp *q)
{
	struct signaled *last = &waiting[nwaiting - 1];
	struct cqe e[MAX_LIST];
	int n = 0;

	for (int k = rnd(2) && nwaiting <= MAX_LIST ? 0 : nwaiting - 1; k < nwaiting; k++)
		e[n++] = requester(q, waiting[k].at, waiting[k].op, waiting[k].op == MLX5_OPCODE_RDMA_READ ? rnd(1 << 20) : 0);
	q->sq_done = last->at + wqe_slots(q, last->at);
	ncompleted = last->count + 1;
	nwaiting = 0;
	poll("random", q->scq, e, n, MAX_LIST, 0, 0);
}

static void random_receives(struct qp *q)
{
	static const int ops[] = { MLX5_CQE_RESP_SEND, MLX5_CQE_RESP_SEND_IMM, MLX5_CQE_RESP_SEND_INV, MLX5_CQE_RESP_WR_IMM };
	struct ibv_recv_wr r[4];
	struct ibv_sge s[4][4];
	struct cqe e[MAX_LIST];
	int n = 1 + rnd(4);

	for (int k = 0; k < n; k++) {
		for (int j = 0; j < 4; j++)
			s[k][j] = piece(0x80000 + rnd(0x10000), rnd(6) ? rnd(5000) : 0);
		r[k] = (struct ibv_recv_wr){ .wr_id = rnd64(), .sg_list = s[k], .num_sge = rnd(4), .next = k + 1 < n ? &r[k + 1] : NULL };
	}
	recv("random_recv", q, r);
	n = rnd(q->rq_pos - q->rq_done + 1);
	for (int k = 0; k < n; k++) {
		e[k] = responder(q, ops[rnd(4)], q->rq_done + k, rnd64());
		e[k].c.flags_rqpn = htobe32(rnd64());
		e[k].c.imm_inval_pkey = htobe32(rnd64());
		e[k].c.slid = htobe16(rnd64());
		e[k].c.ml_path = rnd64();
		e[k].c.timestamp = rnd64();
		if (rnd(4) == 0)
			e[k].c.op_own |= SOLICITED;
	}
	q->rq_done += n;
	if (n)
		poll("random_recv", q->rcq, e, n, MAX_LIST, 0, 0);
}

/* Lists of up to 4, completed now and then, on a queue that fills up sometimes. */
void random_lists(void)
{
	struct cq *scq = make_cq(255), *rcq = make_cq(255);
	struct qp *q = mlx5_qp(IBV_QPT_RC, scq, rcq, NULL, (struct ibv_qp_cap){ 20, 20, 4, 3, 230 }, false);

	ready(q);
	for (int i = 0; i < nrandom; i++) {
		random_sends(q);
		if (nwaiting && rnd(8) == 0)
			random_completions(q);
		/* The queue must not stay full of unsignaled requests. */
		if (nposted - ncompleted > 24 && !nwaiting) {
			uint32_t at = q->sq_pos;

			post_one("random_signaled", q, IBV_WR_SEND, IBV_SEND_SIGNALED, NULL, 0);
			if (q->sq_pos == at)
				DIE("the queue is full of unsignaled requests");
			ncompleted = ++nposted;
		}
		if (nwaiting && nposted - ncompleted > 30 && rnd(2))
			random_completions(q);
		if (rnd(3) == 0)
			random_receives(q);
	}
}
