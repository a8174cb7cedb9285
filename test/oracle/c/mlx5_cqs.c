/* SPDX-License-Identifier: Apache-2.0 */

/* Special CQs: 128 bytes an entry, extended polling,
 * timestamps, other sizes. */
#define _GNU_SOURCE
#include <string.h>

#include "mlx5.h"
#include "scenario.h"

#define CAP (struct ibv_qp_cap){ .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 3, .max_inline_data = 200 }

/* One of each kind of completion, on a CQ that may be extended or large. */
static void mixture(struct cq *cq)
{
	struct qp *q = mlx5_qp(IBV_QPT_RC, cq, cq, NULL, CAP, false);
	static const int ops[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD };
	static const int resp[] = { MLX5_CQE_RESP_SEND, MLX5_CQE_RESP_SEND_IMM, MLX5_CQE_RESP_SEND_INV, MLX5_CQE_RESP_WR_IMM };

	ready(q);
	for (int i = 0; i < 60; i++) {
		struct ibv_sge s[3] = { piece(0x80000, 40), piece(0x80100, 8), piece(0x80200, 30) };
		struct ibv_send_wr w = work(ops[i % 6], IBV_SEND_SIGNALED, i % 6 < 4 ? s : s + 1, 1);
		struct ibv_recv_wr r = { .wr_id = 0x5000 + i, .sg_list = s, .num_sge = 3 };
		uint32_t at = q->sq_pos;
		struct cqe e[2];

		send("mixture", q, &w, NULL);
		recv("mixture", q, &r);
		e[0] = requester(q, at, mlx_opcode[ops[i % 6]], 30);
		e[0].c.timestamp = htobe64(0x0123456789ab0000ull + i);
		e[1] = responder(q, resp[i % 4], q->rq_pos - 1, 60);
		e[1].c.timestamp = htobe64(0xfedcba9876540000ull + i);
		e[1].c.imm_inval_pkey = htobe32(0xaabb0000 + i);
		e[1].c.flags_rqpn = htobe32((i % 4) << 28 | (i % 16) << 24 | (0x1000 + i));
		e[1].c.slid = htobe16(0x4321 + i);
		e[1].c.ml_path = 0x80 | i;
		e[1].c.vlan_info = htobe16(0x2000 + i);
		e[1].c.sop_drop_qpn |= htobe32(i << 24);
		memset(e[1].data, 0, 64);
		if (cq->k->cqe_size == 128) {
			for (int k = 0; k < 64; k++)
				e[0].data[k] = e[1].data[k] = 0x40 + k + i;
			if (i % 3)
				e[1].c.op_own |= SCATTER_64;
			if (i % 6 == 3)
				e[0].c.op_own |= SCATTER_64;
		} else if (i % 5 == 4 && !cq->ex) {
			e[1].c.byte_cnt = htobe32(32);
			e[1].c.op_own |= SCATTER_32;
		}
		if (i == 40)
			e[0] = failed(q, MLX5_CQE_REQ_ERR, at, MLX5_OPCODE_SEND, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, 0x33);
		if (i == 50)
			e[1] = failed(q, MLX5_CQE_RESP_ERR, q->rq_pos - 1, 0, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, 0xf9);
		done(q);
		q->rq_done = q->rq_pos;
		poll("mixture", cq, e, 2, 1 + i % 2, 0x80000, 0x300);
		if (i % 2 == 0)
			poll("mixture_rest", cq, NULL, 0, 4, 0x80000, 0x300);
	}
	reset_data();
}

/* Completions that wait in a CQ while it gets another buffer. */
static void resizes(void)
{
	static const int cqes[] = { 100, 31, 300, 16, 15, 7, 2000, 255 };
	struct cq *cq = make_cq(31);
	struct qp *q = mlx5_qp(IBV_QPT_RC, cq, cq, NULL, CAP, false);
	struct ibv_sge s = piece(0x100, 64);

	ready(q);
	for (unsigned i = 0; i < sizeof(cqes) / sizeof(*cqes); i++) {
		struct cqe e[5];
		struct ibv_send_wr w;
		uint32_t at[5];

		for (int k = 0; k < 5; k++) {
			w = work(IBV_WR_SEND, IBV_SEND_SIGNALED, &s, 1);
			at[k] = q->sq_pos;
			send("resize", q, &w, NULL);
			e[k] = requester(q, at[k], MLX5_OPCODE_SEND, 0);
		}
		poll("before_resize", cq, e, 5, i % 4, 0, 0);
		resize(cq, cqes[i]);
		done(q);
		poll("after_resize", cq, NULL, 0, 16, 0, 0);
		post_one("resized", q, IBV_WR_SEND, IBV_SEND_SIGNALED, &s, 1);
	}
	resize(cq, 1 << 25);
	resize(cq, -1);
}

void cqs(void)
{
	mixture(make_cq(30));
	mixture(mlx5_cq_ex(30, IBV_WC_STANDARD_FLAGS, 0, 0));
	mixture(mlx5_cq_ex(30, IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, 0, 0));
	mixture(mlx5_cq_ex(30, IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG, 0, 0));
	mixture(mlx5_cq_ex(30, IBV_WC_STANDARD_FLAGS, 128, 0));
	/* libmlx5 does not expand compressed completions. Only the parameters for the
	 * kernel can be recorded. */
	mlx5_cq_ex(30, IBV_WC_STANDARD_FLAGS, 64, MLX5DV_CQE_RES_FORMAT_HASH);
	mlx5_cq_ex(30, IBV_WC_STANDARD_FLAGS, 128, MLX5DV_CQE_RES_FORMAT_CSUM);
	mlx5_cq_ex(30, IBV_WC_STANDARD_FLAGS, 256, 0);
	resizes();
}
