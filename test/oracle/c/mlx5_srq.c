/* SPDX-License-Identifier: Apache-2.0 */

/* Shared receive queues, XRC, and other ways to return receives. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "mlx5.h"
#include "out.h"
#include "scenario.h"

static struct ibv_recv_wr *recv_list(struct ibv_recv_wr *w, struct ibv_sge *s, int n, int sge, uint64_t id)
{
	for (int i = 0; i < n; i++)
		w[i] = (struct ibv_recv_wr){ .wr_id = id + i, .sg_list = s, .num_sge = i % (sge + 1), .next = i + 1 < n ? &w[i + 1] : NULL };
	return w;
}

/* taken takes the k-th posted slot. */
static uint32_t taken(struct srq *s, uint32_t k)
{
	for (uint32_t i = 0;; i = (i + 1) % s->slots)
		if (s->posted[i] && !k--) {
			s->posted[i] = false;
			return i;
		}
}

static uint32_t posted(struct srq *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->slots; i++)
		n += s->posted[i];
	return n;
}

/* Receives that complete out of order, so that the links change. */
static void use_srq(struct srq *srq, struct cq *cq, struct qp **q, int nq, const char *of)
{
	struct ibv_sge s[5] = { piece(0x80000, 10), piece(0x80100, 100), piece(0x80200, 200), piece(0x80300, 300), piece(0x80400, 1) };
	struct ibv_recv_wr w[32];

	srq_recv("srq_first", srq, recv_list(w, s, 5, 2, 0x7000));
	for (int round = 0; round < 40; round++) {
		int n = rnd(4) ? rnd(posted(srq) + 1) : 0;
		struct cqe e[64];

		for (int i = 0; i < n; i++) {
			struct qp *on = q[rnd(nq)];
			bool bad = rnd(8) == 0;
			uint32_t slot = taken(srq, rnd(posted(srq)));
			/* libmlx5 crashes with data for which no element exists. */
			bool has = be32toh(*(uint32_t *)(srq->k->buf + slot * srq->stride + 16));
			bool inl = !bad && has && rnd(4) == 0;

			e[i] = responder(on, bad ? MLX5_CQE_RESP_ERR : rnd(2) ? MLX5_CQE_RESP_SEND : MLX5_CQE_RESP_SEND_IMM,
					 slot, inl ? 1 + rnd(9) : rnd(5000));
			e[i].c.imm_inval_pkey = htobe32(rnd64());
			if (bad) {
				((uint8_t *)&e[i].c)[54] = round;
				((uint8_t *)&e[i].c)[55] = MLX5_CQE_SYNDROME_WR_FLUSH_ERR;
			}
			if (inl) {
				e[i].c.op_own |= SCATTER_32;
				memset(&e[i].c, 0xa0 + i, 10);
			}
			if (of) {
				e[i].of = of;
				e[i].c.srqn_uidx = htobe32(srq->k->uidx);
			}
		}
		if (n)
			poll("srq", cq, e, n, MAX_LIST, 0x80000, 0x400);
		srq_recv("srq", srq, recv_list(w, s, 1 + rnd(round < 30 ? 6 : 20), 3, 0x8000 + 0x100 * round));
	}
	w[0] = (struct ibv_recv_wr){ .wr_id = 1, .sg_list = s, .num_sge = 5 };
	srq_recv("srq_too_many_elements", srq, w);
	reset_data();
}

void shared(void)
{
	struct cq *scq = make_cq(63), *rcq = make_cq(127);
	struct srq *srq = mlx5_srq(16, 3);
	struct qp *q[2];

	for (int i = 0; i < 2; i++) {
		q[i] = mlx5_qp(IBV_QPT_RC, scq, rcq, srq, (struct ibv_qp_cap){ 8, 0, 2, 0, 64 }, false);
		ready(q[i]);
	}
	use_srq(srq, rcq, q, 2, NULL);
	post_one("srq_send", q[0], IBV_WR_SEND, IBV_SEND_SIGNALED, NULL, 0);
	post_one("srq_send", q[1], IBV_WR_SEND, IBV_SEND_SIGNALED, NULL, 0);
}

void xrc(void)
{
	struct ibv_xrcd_init_attr xa = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = 0100 /* O_CREAT */ };
	struct ibv_xrcd *xrcd = ibv_open_xrcd(ctx, &xa);
	struct cq *scq = make_cq(63), *rcq = make_cq(127);
	struct ibv_srq_init_attr_ex sa = {
		.attr = { .max_wr = 16, .max_sge = 3 }, .srq_type = IBV_SRQT_XRC, .pd = pd, .xrcd = xrcd, .cq = rcq->ibv,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
	};
	struct srq srq = { .id = "xsrq0" };
	struct ibv_sge s = piece(0x100, 64);
	struct qp *snd, *rcv;
	uint32_t num = 0;

	if (!xrcd)
		DIE("ibv_open_xrcd");
	rec("xrcd", NULL);
	out_str("id", "xrcd0");
	rec_end();
	srq.ibv = ibv_create_srq_ex(ctx, &sa);
	if (!srq.ibv)
		DIE("ibv_create_srq_ex");
	ibv_get_srq_num(srq.ibv, &num);
	rec("srq", NULL);
	out_str("id", srq.id);
	out_str("xrcd", "xrcd0");
	out_str("cq", rcq->id);
	out_num("wr", 16);
	out_num("sge", 3);
	out_num("rc", 0);
	out_num("got_wr", sa.attr.max_wr);
	out_num("got_sge", sa.attr.max_sge);
	out_num("srqn", num);
	rec_end();
	srq.k = &fake->srq[fake->nsrq - 1];
	wire_srq(&srq, sa.attr.max_sge);

	snd = mlx5_qp_ex(IBV_QPT_XRC_SEND, scq, NULL, NULL, (struct ibv_qp_cap){ 16, 0, 3, 0, 100 }, &(struct qp_extra){});
	ready(snd);
	rcv = mlx5_qp_ex(IBV_QPT_XRC_RECV, NULL, NULL, NULL, (struct ibv_qp_cap){}, &(struct qp_extra){ .xrcd = xrcd });
	ready(rcv);
	for (int f = 0; f < 16; f++) {
		static const int ops[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD };

		for (int i = 0; i < 6; i++) {
			struct ibv_send_wr w = work(ops[i], (i < 4 ? f : f & 7) | IBV_SEND_SIGNALED, &s, 1);
			uint32_t at = snd->sq_pos;
			struct cqe e;

			w.qp_type.xrc.remote_srqn = num + f;
			if (send("xrc", snd, &w, NULL))
				continue;
			e = requester(snd, at, mlx_opcode[ops[i]], 64);
			done(snd);
			poll("xrc", scq, &e, 1, 4, 0, 0);
		}
	}
	use_srq(&srq, rcq, &rcv, 1, srq.id);
}

/* More receives than a 16-bit count can hold. */
void srq_count(void)
{
	struct cq *scq = make_cq(63), *rcq = make_cq(127);
	struct srq *srq = mlx5_srq(16, 2);
	struct qp *q = mlx5_qp(IBV_QPT_RC, scq, rcq, srq, (struct ibv_qp_cap){ 8, 0, 2, 0, 64 }, false);
	struct ibv_sge s[5] = { piece(0x80000, 10), piece(0x80100, 100) };
	struct ibv_recv_wr w[8] = { { .wr_id = 0x7000, .sg_list = s, .num_sge = 1 } };

	ready(q);
	many_receives("65530_srq_receives", srq, q, 65530, 7, w);
	for (int round = 0; round < 4; round++) {
		srq_recv("past_2^16", srq, recv_list(w, s, 3, 2, 0x8000 + 0x100 * round));
		for (int i = 0; i < 3; i++) {
			struct cqe e = responder(q, MLX5_CQE_RESP_SEND, taken(srq, rnd(posted(srq))), 5);

			poll("past_2^16", rcq, &e, 1, 4, 0, 0);
		}
	}
	many_receives("2^17_srq_receives", srq, q, 1 << 16, 8, w);
	srq_recv("past_2^17", srq, recv_list(w, s, 3, 2, 0x9000));
}

/* wait adds completions that are polled later. */
static void wait(struct cq *c, struct cqe *e, int n)
{
	poll("waits", c, e, n, 0, 0, 0);
}

/* A queue pair is reset while completions of it and of other QPs wait. The other
 * completions stay, in order, and its receives of an SRQ return to the SRQ. */
void resets(void)
{
	struct cq *cq = make_cq(31), *other = make_cq(31);
	struct srq *srq = mlx5_srq(16, 3);
	struct qp *q[3];
	struct ibv_sge s = piece(0x100, 64);

	q[0] = mlx5_qp(IBV_QPT_RC, cq, cq, NULL, (struct ibv_qp_cap){ 8, 8, 2, 2, 64 }, false);
	q[1] = mlx5_qp(IBV_QPT_RC, other, cq, NULL, (struct ibv_qp_cap){ 8, 8, 2, 2, 64 }, false);
	q[2] = mlx5_qp(IBV_QPT_RC, cq, cq, srq, (struct ibv_qp_cap){ 8, 0, 2, 0, 64 }, false);
	for (int i = 0; i < 3; i++)
		ready(q[i]);
	for (int round = 0; round < 12; round++) {
		struct qp *reset = q[round % 3];

		for (int k = 0; k < 9; k++) {
			struct qp *on = q[(k * (round + 1)) % 3];
			struct ibv_recv_wr r = { .wr_id = 0x9000 + 16 * round + k, .sg_list = &s, .num_sge = k % 2 };
			struct ibv_send_wr w = work(IBV_WR_SEND, IBV_SEND_SIGNALED, &s, 1);
			uint32_t at = on->sq_pos;
			struct cqe e;

			if (on->sq_pos - on->sq_done >= 6)
				continue;
			send("reset", on, &w, NULL);
			e = requester(on, at, MLX5_OPCODE_SEND, 0);
			wait(on->scq, &e, 1);
			if (on->srq) {
				srq_recv("reset", srq, &r);
				e = responder(on, MLX5_CQE_RESP_SEND, taken(srq, rnd(posted(srq))), 5);
			} else if (on->rq_pos - on->rq_done < 6) {
				recv("reset", on, &r);
				e = responder(on, MLX5_CQE_RESP_SEND, on->rq_pos - 1, 5);
			} else {
				continue;
			}
			wait(cq, &e, 1);
		}
		move_qp(reset, IBV_QPS_RESET);
		reset->sq_pos = reset->sq_done = reset->rq_pos = reset->rq_done = 0;
		poll("after_reset", cq, NULL, 0, 3, 0, 0);
		if (round % 2) { /* sometimes they stay until the next reset */
			poll("after_reset", cq, NULL, 0, MAX_LIST, 0, 0);
			poll("after_reset", other, NULL, 0, MAX_LIST, 0, 0);
			for (int i = 0; i < 3; i++) {
				done(q[i]);
				q[i]->rq_done = q[i]->rq_pos;
			}
		}
		ready(reset);
		post_one("ready_again", reset, IBV_WR_SEND, 0, &s, 1);
	}
}

/* On-demand paging: a receive of an SRQ without present memory comes back, and the
 * library posts it again without the caller. */
void faults(void)
{
	struct cq *scq = make_cq(63), *rcq = make_cq(127);
	struct srq *srq = mlx5_srq(16, 3);
	struct qp *q = mlx5_qp(IBV_QPT_RC, scq, rcq, srq, (struct ibv_qp_cap){ 8, 0, 2, 0, 64 }, false);
	struct ibv_sge s[4] = { piece(0x80000, 10), piece(0x80100, 100), piece(0x80200, 200), piece(0x80300, 300) };
	struct ibv_recv_wr w[8];

	ready(q);
	for (int round = 0; round < 12; round++) {
		srq_recv("fault", srq, recv_list(w, s, 1 + round % 3, 3, 0x7000 + 0x100 * round));
		if (posted(srq) < 8) {
			struct cqe e = failed(q, MLX5_CQE_RESP_ERR, taken(srq, rnd(posted(srq))), 0, MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR, 0x93);

			poll("fault", rcq, &e, 1, 4, 0, 0);
			srq_reposted(srq);
		}
		for (int k = 0; k < 1 + round % 2; k++) {
			struct cqe e = responder(q, MLX5_CQE_RESP_SEND, taken(srq, rnd(posted(srq))), 5);

			poll("after_fault", rcq, &e, 1, 4, 0, 0);
		}
	}
}
