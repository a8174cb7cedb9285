/* SPDX-License-Identifier: Apache-2.0 */

/* RC and UC: every opcode and flag, receives, errors. */
#define _GNU_SOURCE
#include <string.h>

#include "mlx5.h"
#include "scenario.h"

#define CAP (struct ibv_qp_cap){ .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 3, .max_inline_data = 200 }

const int mlx_opcode[] = {
	[IBV_WR_RDMA_WRITE] = MLX5_OPCODE_RDMA_WRITE, [IBV_WR_RDMA_WRITE_WITH_IMM] = MLX5_OPCODE_RDMA_WRITE_IMM,
	[IBV_WR_SEND] = MLX5_OPCODE_SEND, [IBV_WR_SEND_WITH_IMM] = MLX5_OPCODE_SEND_IMM, [IBV_WR_RDMA_READ] = MLX5_OPCODE_RDMA_READ,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = MLX5_OPCODE_ATOMIC_CS, [IBV_WR_ATOMIC_FETCH_AND_ADD] = MLX5_OPCODE_ATOMIC_FA,
	[IBV_WR_LOCAL_INV] = MLX5_OPCODE_UMR, [IBV_WR_BIND_MW] = MLX5_OPCODE_UMR, [IBV_WR_SEND_WITH_INV] = MLX5_OPCODE_SEND_INVAL,
	[IBV_WR_TSO] = MLX5_OPCODE_TSO,
};

int post_one(const char *name, struct qp *q, int opcode, int flags, struct ibv_sge *s, int n)
{
	struct ibv_send_wr w = work(opcode, flags, s, n);
	uint32_t at = q->sq_pos;
	struct cqe e;
	int rc = send(name, q, &w, NULL);

	if (rc || !(flags & IBV_SEND_SIGNALED))
		return rc;
	e = requester(q, at, mlx_opcode[opcode], opcode == IBV_WR_RDMA_READ ? 64 : 0);
	done(q);
	poll(name, q->scq, &e, 1, 4, 0, 0);
	return 0;
}

/* Every opcode with every combination of flags. Inline data where the library checks
 * the flag. */
static void opcodes_and_flags(struct qp *q, const int *ops, int nops)
{
	struct ibv_sge s = piece(0x100, 64), a = piece(0x200, 8);

	for (int i = 0; i < nops; i++) {
		bool atomic = ops[i] == IBV_WR_ATOMIC_CMP_AND_SWP || ops[i] == IBV_WR_ATOMIC_FETCH_AND_ADD;

		for (int f = 0; f < 16; f++) {
			if (f & IBV_SEND_INLINE && (atomic || ops[i] == IBV_WR_RDMA_READ))
				continue;
			post_one("flags", q, ops[i], f, atomic ? &a : &s, 1);
			if (!(f & IBV_SEND_SIGNALED))
				post_one("flags_end", q, IBV_WR_SEND, IBV_SEND_SIGNALED, NULL, 0);
		}
	}
}

static void inline_sizes(struct qp *q)
{
	/* 236 and 220 fill 256 bytes, the maximum for BlueFlame. */
	static const int sends[] = { 0, 1, 11, 12, 13, 27, 28, 29, 44, 45, 60, 61, 64, 100, 200, 220, 221, 235, 236, 237, 240, 252, 253, 1000 };

	for (unsigned i = 0; i < sizeof(sends) / sizeof(*sends); i++) {
		struct ibv_sge s = piece(0x100 + i, sends[i]);

		post_one("inline_send", q, IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_INLINE, &s, 1);
		post_one("inline_write", q, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED | IBV_SEND_INLINE, &s, 1);
	}
}

static void elements(struct qp *q)
{
	struct ibv_sge s[8];

	for (int i = 0; i < 8; i++)
		s[i] = piece(0x1000 * (i + 1) + i, i == 1 ? 0 : 50 + i * 17);
	for (int n = 0; n <= 4; n++) {
		post_one("sge_send", q, IBV_WR_SEND, IBV_SEND_SIGNALED, s, n);
		post_one("sge_write", q, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, s, n);
		if (q->ibv->qp_type == IBV_QPT_RC) /* libmlx5 does not check whether the transport supports it */
			post_one("sge_read", q, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, s, n);
		if (n < 4)
			post_one("sge_inline", q, IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_INLINE, s, n);
	}
	post_one("too_many_elements", q, IBV_WR_SEND, IBV_SEND_SIGNALED, s, 5);
	s[0].length = 2000;
	post_one("inline_too_long", q, IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_INLINE, s, 1);
}

/* A list with a bad k-th request. */
static void fails_in_the_middle(struct qp *q)
{
	struct ibv_sge s = piece(0x100, 64), big = piece(0x100, 2000), five[5];

	for (int i = 0; i < 5; i++)
		five[i] = piece(0x100 * i, 8);
	for (int k = 0; k < 4; k++)
		for (int how = 0; how < 3; how++) {
			struct ibv_send_wr w[4];
			uint32_t at = q->sq_pos;
			struct cqe e;

			for (int i = 0; i < 4; i++) {
				w[i] = work(IBV_WR_SEND, IBV_SEND_SIGNALED, &s, 1);
				w[i].next = i < 3 ? &w[i + 1] : NULL;
			}
			if (how == 0) {
				w[k].sg_list = five;
				w[k].num_sge = 5;
			} else if (how == 1) {
				w[k].sg_list = &big;
				w[k].send_flags |= IBV_SEND_INLINE;
			} else {
				w[k].opcode = 99;
			}
			send("fails_in_the_middle", q, w, NULL);
			if (q->sq_pos == at)
				continue;
			e = requester(q, q->sq_pos - 1, MLX5_OPCODE_SEND, 0);
			done(q);
			poll("fails_in_the_middle", q->scq, &e, 1, 4, 0, 0);
		}
}

static void overflow(struct qp *q)
{
	struct ibv_sge s = piece(0x100, 64);
	struct ibv_send_wr w[8];
	struct cqe e;
	int rc;

	for (int i = 0; i < 8; i++) {
		w[i] = work(IBV_WR_SEND, 0, &s, 1);
		w[i].next = i < 7 ? &w[i + 1] : NULL;
	}
	do
		rc = send("fill", q, w, NULL);
	while (!rc);
	send("full", q, w, NULL);
	e = requester(q, q->sq_pos - 1, MLX5_OPCODE_SEND, 0);
	done(q);
	poll("drain", q->scq, &e, 1, 4, 0, 0);
}

/* Receives and their completions: opcodes, GRH, path, checksum bits, solicited. */
static void receives(struct qp *q)
{
	static const struct {
		const char *name;
		int opcode, bits;
		uint32_t imm, flags_rqpn, bytes;
	} kinds[] = {
		{ "recv", MLX5_CQE_RESP_SEND, 0, 0, 0x01000777, 64 },
		{ "recv_imm", MLX5_CQE_RESP_SEND_IMM, 0, 0xa1b2c3d4, 0x01000777, 4096 },
		{ "recv_inv", MLX5_CQE_RESP_SEND_INV, 0, 0xa1b2c3d5, 0x00000777, 0 },
		{ "recv_write_imm", MLX5_CQE_RESP_WR_IMM, 0, 0x01020304, 0x10000777, 100 },
		{ "recv_scatter32", MLX5_CQE_RESP_SEND, SCATTER_32, 0, 0x777, 20 },
		{ "recv_solicited", MLX5_CQE_RESP_SEND, SOLICITED, 0, 0x3f000777, 20 },
	};

	for (int i = 0; i < 48; i++) {
		struct ibv_sge s[3];
		struct ibv_recv_wr w = { .wr_id = 0x5000 + i, .sg_list = s, .num_sge = rnd(4) };
		const typeof(kinds[0]) *k = &kinds[i % 6];
		struct cqe e;

		for (int j = 0; j < 3; j++)
			s[j] = piece(0x80000 + 0x400 * j + rnd(0x200), i < 8 || rnd(5) ? 40 + rnd(500) : 0);
		if (k->bits == SCATTER_32) {
			w.num_sge = 2;
			s[0].length = 1 + rnd(9);
			s[1].length = 100; /* libmlx5 crashes with too short a list */
		}
		recv(k->name, q, &w);
		e = responder(q, k->opcode, q->rq_pos - 1, k->bytes);
		e.c.op_own |= k->bits;
		e.c.imm_inval_pkey = htobe32(k->imm);
		e.c.flags_rqpn = htobe32(k->flags_rqpn);
		e.c.slid = htobe16(0x1234 + i);
		e.c.ml_path = 0x80 | i;
		if (k->bits == SCATTER_32)
			for (int j = 0; j < 20; j++)
				((uint8_t *)&e.c)[j] = 0xa0 + j + i;
		q->rq_done = q->rq_pos;
		poll(k->name, q->rcq, &e, 1, 4, 0x80000, k->bits == SCATTER_32 ? 0x1000 : 0);
	}
	reset_data();
}

/* Lists of receives, more than fit, too many elements. */
static void receive_lists(struct qp *q)
{
	struct ibv_sge s[5];
	struct ibv_recv_wr w[20];

	for (int i = 0; i < 5; i++)
		s[i] = piece(0x80000 + 0x100 * i, 0x100);
	for (int round = 0; round < 6; round++) {
		static const int sizes[] = { 1, 3, 7, 16, 20, 4 };
		int n = sizes[round];
		struct cqe e[20];

		for (int i = 0; i < n; i++)
			w[i] = (struct ibv_recv_wr){ .wr_id = 0x6000 + 0x100 * round + i, .sg_list = s, .num_sge = i % 4, .next = i + 1 < n ? &w[i + 1] : NULL };
		if (round == 5)
			w[2].num_sge = 5;
		recv("recv_list", q, w);
		n = q->rq_pos - q->rq_done;
		for (int i = 0; i < n; i++)
			e[i] = responder(q, MLX5_CQE_RESP_SEND, q->rq_done + i, 32 + i);
		q->rq_done = q->rq_pos;
		poll("recv_list", q->rcq, e, n, 5, 0, 0);
		while (q->rcq->pi != be32toh(*(uint32_t *)q->rcq->k->db))
			poll("recv_list_rest", q->rcq, NULL, 0, 5, 0, 0);
	}
}

/* All syndromes and an invalid one, for the requester and the responder. */
static void syndromes(struct qp *q)
{
	static const uint8_t syndrome[] = { 0x01, 0x02, 0x04, 0x05, 0x06, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x22, 0x77 };
	struct ibv_sge s = piece(0x100, 64);

	for (unsigned i = 0; i < sizeof(syndrome); i++) {
		struct ibv_send_wr w = work(IBV_WR_SEND, IBV_SEND_SIGNALED, &s, 1);
		struct ibv_recv_wr r = { .wr_id = 0x9000 + i };
		uint32_t at = q->sq_pos;
		struct cqe e;

		send("error", q, &w, NULL);
		e = failed(q, MLX5_CQE_REQ_ERR, at, MLX5_OPCODE_SEND, syndrome[i], 0x81 + i);
		done(q);
		poll("error", q->scq, &e, 1, 4, 0, 0);
		recv("recv_error", q, &r);
		e = failed(q, MLX5_CQE_RESP_ERR, q->rq_pos - 1, 0, syndrome[i], 0x91 + i);
		q->rq_done = q->rq_pos;
		poll("recv_error", q->rcq, &e, 1, 4, 0, 0);
	}
}

/* Data in the completion of a read or an atomic. */
static void scatter_to_sender(struct qp *q)
{
	for (int i = 0; i < 6; i++) {
		struct ibv_sge s[2] = { piece(0x80000, i < 3 ? 8 : 5), piece(0x80100, i < 3 ? 0 : 20) };
		int op = i % 3 == 0 ? IBV_WR_RDMA_READ : i % 3 == 1 ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
		struct ibv_send_wr w;
		uint32_t at = q->sq_pos;
		struct cqe e;

		if (op != IBV_WR_RDMA_READ)
			s[0].length = 8;
		w = work(op, IBV_SEND_SIGNALED, s, op == IBV_WR_RDMA_READ && i >= 3 ? 2 : 1);
		if (send("scatter_sender", q, &w, NULL))
			continue;
		e = requester(q, at, mlx_opcode[op], op == IBV_WR_RDMA_READ ? (i < 3 ? 8 : 20) : 8);
		e.c.op_own |= SCATTER_32;
		for (int j = 0; j < 32; j++)
			((uint8_t *)&e.c)[j] = 0xb0 + j;
		done(q);
		poll("scatter_sender", q->scq, &e, 1, 4, 0x80000, 0x200);
	}
	reset_data();
}

static const int rc_ops[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD };
static const int uc_ops[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM };

void rc(void)
{
	struct cq *scq = make_cq(63), *rcq = make_cq(31);
	struct qp *q = mlx5_qp(IBV_QPT_RC, scq, rcq, NULL, CAP, false);

	ready(q);
	opcodes_and_flags(q, rc_ops, sizeof(rc_ops) / sizeof(*rc_ops));
	inline_sizes(q);
	elements(q);
	fails_in_the_middle(q);
	overflow(q);
	receives(q);
	receive_lists(q);
	syndromes(q);
	scatter_to_sender(q);
	for (int i = 0; i < 4; i++)
		arm(i < 2 ? scq : rcq, i % 2);
	/* The sequence number of arming advances with completions only. */
	poll("nothing", scq, NULL, 0, 4, 0, 0);
	arm(scq, 0);
	post_one("armed", q, IBV_WR_SEND, IBV_SEND_SIGNALED, NULL, 0);
	arm(scq, 0);
	arm(scq, 1);
}

void uc(void)
{
	struct cq *cq = make_cq(63);
	struct qp *q = mlx5_qp(IBV_QPT_UC, cq, cq, NULL, CAP, true);

	ready(q);
	opcodes_and_flags(q, uc_ops, sizeof(uc_ops) / sizeof(*uc_ops));
	elements(q);
	receive_lists(q);
}

void trace(void)
{
	struct cq *cq = make_cq(63);
	struct qp *q = mlx5_qp(IBV_QPT_RC, cq, cq, NULL, CAP, false);
	struct ibv_sge s[4] = { piece(0x100, 64), piece(0x200, 100), piece(0x300, 3), piece(0x400, 50) };

	ready(q);
	tracing = true;
	for (int round = 0; round < 12; round++) {
		struct ibv_send_wr w[3];
		struct cqe e;

		post_one("trace", q, IBV_WR_SEND, IBV_SEND_SIGNALED, NULL, 0);
		post_one("trace", q, IBV_WR_SEND, IBV_SEND_SIGNALED, s, 1);
		post_one("trace", q, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, s, 4);
		s[0].length = 30 * round + 1;
		post_one("trace", q, IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_INLINE, s, 1);
		for (int i = 0; i < 3; i++) {
			w[i] = work(IBV_WR_SEND, IBV_SEND_SIGNALED, s, 1);
			w[i].next = i < 2 ? &w[i + 1] : NULL;
		}
		send("trace_list", q, w, NULL);
		e = requester(q, q->sq_pos - 1, MLX5_OPCODE_SEND, 0);
		done(q);
		poll("trace_list", cq, &e, 1, 4, 0, 0);
	}
	tracing = false;
}

/* The sizes of queues, and their parameters for the kernel. */
void sizes(void)
{
	static const struct ibv_qp_cap caps[] = {
		{ 1, 1, 1, 1, 0 }, { 1, 1, 1, 1, 1 }, { 2, 2, 1, 1, 64 }, { 16, 16, 4, 3, 200 }, { 17, 17, 5, 4, 201 }, { 100, 100, 10, 10, 0 },
		{ 128, 256, 30, 16, 0 }, { 1000, 1000, 2, 2, 512 }, { 0, 16, 0, 1, 0 }, { 16, 0, 1, 0, 32 }, { 4, 4, 50, 31, 900 },
		{ 4, 4, 1, 1, 956 }, { 4, 4, 1, 1, 957 }, { 40000, 1, 1, 1, 0 }, { 1, 40000, 1, 1, 0 }, { 1, 1, 100, 1, 0 }, { 1, 1, 1, 64, 0 },
	};
	static const int types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	static const int depths[] = { 0, 1, 2, 3, 4, 31, 32, 63, 64, 100, 1000, 65535, 1 << 24 };
	struct cq *cq;
	static const int srqs[][2] = { { 1, 1 }, { 2, 1 }, { 15, 2 }, { 16, 3 }, { 100, 4 }, { 16, 16 }, { 40000, 1 }, { 1, 40 } };

	for (unsigned i = 0; i < sizeof(depths) / sizeof(*depths); i++)
		make_cq(depths[i]);
	cq = make_cq(10);
	for (unsigned t = 0; t < 3; t++)
		for (unsigned i = 0; i < sizeof(caps) / sizeof(*caps); i++)
			mlx5_qp(types[t], cq, cq, NULL, caps[i], i % 2);
	for (unsigned i = 0; i < sizeof(srqs) / sizeof(*srqs); i++)
		make_srq(srqs[i][0], srqs[i][1]);
}
