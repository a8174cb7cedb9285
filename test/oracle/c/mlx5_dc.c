/* SPDX-License-Identifier: Apache-2.0 */

/* DC, which only ibv_wr_start and mlx5dv support. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mlx5.h"
#include "out.h"
#include "scenario.h"

#define OPS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | \
	     IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

static void build(struct ibv_qp_ex *x, const struct ibv_send_wr *w, struct ibv_ah *ah, uint32_t dctn, uint64_t key)
{
	x->wr_id = w->wr_id;
	x->wr_flags = w->send_flags & ~IBV_SEND_INLINE;
	switch (w->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(x);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(x, w->imm_data);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(x, w->wr.rdma.rkey, w->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(x, w->wr.rdma.rkey, w->wr.rdma.remote_addr, w->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(x, w->wr.rdma.rkey, w->wr.rdma.remote_addr);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(x, w->wr.atomic.rkey, w->wr.atomic.remote_addr, w->wr.atomic.compare_add, w->wr.atomic.swap);
		break;
	default:
		ibv_wr_atomic_fetch_add(x, w->wr.atomic.rkey, w->wr.atomic.remote_addr, w->wr.atomic.compare_add);
	}
	mlx5dv_wr_set_dc_addr(mlx5dv_qp_ex_from_ibv_qp_ex(x), ah, dctn, key);
	if (w->send_flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data(x, (void *)(uintptr_t)w->sg_list[0].addr, w->sg_list[0].length);
	else
		ibv_wr_set_sge_list(x, w->num_sge, w->sg_list);
}

static void initiator(void)
{
	struct cq *cq = make_cq(63);
	struct qp *q = mlx5_qp_ex(IBV_QPT_DRIVER, cq, cq, NULL, (struct ibv_qp_cap){ 16, 0, 3, 0, 128 },
				  &(struct qp_extra){ .dc = MLX5DV_DCTYPE_DCI, .send_ops = OPS });
	static const int ops[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD };
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 64, .flow_label = 0x12345 } };
	struct ibv_ah *ah;
	struct ibv_qp_ex *x;

	if (!q)
		DIE("no DCI");
	ready(q);
	memset(a.grh.dgid.raw, 0x20, 16);
	ah = make_ah("ah0", &a);
	x = ibv_qp_to_qp_ex(q->ibv);
	for (int f = 0; f < 16; f++)
		for (int i = 0; i < 7; i++) {
			struct ibv_sge s[3] = { piece(0x100, i >= 5 ? 8 : 64), piece(0x200, 100), piece(0x300, 3) };
			struct ibv_send_wr w = work(ops[i], (i < 4 ? f : f & 7) | IBV_SEND_SIGNALED, s, i >= 5 || f >= 8 ? 1 : 1 + f % 3);
			uint32_t at = q->sq_pos, dctn = 0x4321 + f;
			uint64_t key = 0x1122334455667788ull + f;
			struct cqe e;
			int rc;

			watch(q);
			ibv_wr_start(x);
			build(x, &w, ah, dctn, key);
			rc = ibv_wr_complete(x);
			rec("send", "dc");
			out_str("qp", q->id);
			out_str("api", "ibv_wr");
			out_open("wrs", '[');
			print_send_wr(&w, NULL);
			out_close(']');
			out_open("dc", '{');
			out_str("ah", "ah0");
			out_num("dctn", dctn);
			out_u64("key", key);
			out_close('}');
			out_num("rc", rc);
			out_num("bad", -1);
			see_stores(q);
			rec_end();
			if (rc)
				continue;
			e = requester(q, at, mlx_opcode[ops[i]], 0);
			done(q);
			poll("dc", cq, &e, 1, 4, 0, 0);
		}
}

void dc(void)
{
	struct cq *cq;
	struct srq *srq;
	struct qp *t;

	initiator();
	cq = make_cq(15);
	srq = mlx5_srq(16, 3);
	t = mlx5_qp_ex(IBV_QPT_DRIVER, cq, cq, srq, (struct ibv_qp_cap){}, &(struct qp_extra){ .dc = MLX5DV_DCTYPE_DCT, .dct_key = 0x1122334455667788ull });
	if (!t)
		return;
	move_qp(t, IBV_QPS_INIT);
	move_qp(t, IBV_QPS_RTR);
	rec("dct", NULL);
	out_str("qp", t->id);
	out_num("qpn", t->ibv->qp_num);
	rec_end();
}
