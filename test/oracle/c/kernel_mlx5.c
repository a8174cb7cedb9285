/* SPDX-License-Identifier: Apache-2.0 */

/* The fake mlx5_ib. */
#define _GNU_SOURCE
#include <errno.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

static int env_is(const char *name, const char *value)
{
	const char *v = getenv(name);

	return v && !strcmp(v, value);
}

static void get_context(struct call *c)
{
	struct mlx5_ib_alloc_ucontext_req_v2 q;
	struct mlx5_ib_alloc_ucontext_resp r = {
		.qp_tab_size = 1 << 18, .bf_reg_size = 512, .cache_line_size = 64,
		.max_sq_desc_sz = 1024, .max_rq_desc_sz = 512, .max_send_wqebb = 32768,
		.max_recv_wr = 32768, .max_srq_recv_wr = 32767, .num_ports = 1,
		.comp_mask = MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE | MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_SQD2RTS,
		.response_length = sizeof(r), .cqe_version = 1,
		.cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE | MLX5_USER_CMDS_SUPP_UHW_CREATE_AH,
		.eth_min_inline = env_is("FAKEUV_INLINE", "l2") ? MLX5_USER_INLINE_MODE_L2 : MLX5_USER_INLINE_MODE_NONE,
		.log_uar_size = 12, .num_uars_per_page = 1, .num_dyn_bfregs = 1024,
	};

	get(c, UVERBS_ATTR_UHW_IN, &q, sizeof(q));
	if (env_is("FAKEUV_BF", "0"))
		r.bf_reg_size = 0;
	if (env_is("FAKEUV_UAR", "legacy"))
		r.tot_bfregs = q.total_num_bfregs;
	put(c, UVERBS_ATTR_UHW_OUT, &r, sizeof(r));
}

static void query_device(struct write_cmd *w)
{
	struct mlx5_ib_query_device_resp r = {
		.response_length = sizeof(r),
		.tso_caps = { .max_tso = 1 << 18, .supported_qpts = 1 << IB_UVERBS_QPT_RAW_PACKET },
		.cqe_comp_caps = { .max_num = 64, .supported_format = MLX5_IB_CQE_RES_FORMAT_HASH | MLX5_IB_CQE_RES_FORMAT_CSUM },
		.flags = MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_COMP | MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD,
	};

	answer(w->drv_out, w->drv_out_len, &r, sizeof(r));
}

static void alloc_pd(struct write_cmd *w)
{
	static uint32_t pdn = 0x1000;
	struct mlx5_ib_alloc_pd_resp r = { .pdn = ++pdn };

	answer(w->drv_out, w->drv_out_len, &r, sizeof(r));
}

static void create_ah(struct write_cmd *w)
{
	struct mlx5_ib_create_ah_resp r = { .response_length = sizeof(r), .dmac = { 2, 0, 0, 0, 0, 9 } };

	answer(w->drv_out, w->drv_out_len, &r, sizeof(r));
}

static void create_cq(struct call *c, struct fake_cq *q)
{
	struct mlx5_ib_create_cq u;
	struct mlx5_ib_create_cq_resp r = { .cqn = q->cqn };

	get(c, UVERBS_ATTR_UHW_IN, &u, sizeof(u));
	q->buf = u.buf_addr;
	q->db = u.db_addr;
	q->cqe_size = u.cqe_size;
	put(c, UVERBS_ATTR_UHW_OUT, &r, sizeof(r));
}

static void resize_cq(struct write_cmd *w, struct fake_cq *q, uint32_t cqe)
{
	struct mlx5_ib_resize_cq u = {};

	(void)cqe;
	memcpy(&u, w->drv_in, w->drv_in_len < sizeof(u) ? w->drv_in_len : sizeof(u));
	q->buf = u.buf_addr;
	q->cqe_size = u.cqe_size;
}

/* The options of enhanced connection establishment that the device has, and the options
 * that it grants. */
#define ECE_VERSION 0x10000000u
#define ECE (ECE_VERSION | 5)

static uint32_t grant(uint32_t asked)
{
	return asked == ECE_VERSION ? ECE : asked & ECE;
}

static void create_qp(struct call *c, struct fake_qp *q, struct ib_uverbs_qp_cap *cap, uint32_t type)
{
	struct mlx5_ib_create_qp u;
	/* Legacy: a register of one QP, or a register that several QPs share. */
	struct mlx5_ib_create_qp_resp r = { .bfreg_index = env_is("FAKEUV_BFREG", "shared") ? 1 : 4 };

	(void)cap;
	get(c, UVERBS_ATTR_UHW_IN, &u, sizeof(u));
	q->buf = u.buf_addr;
	q->sq_buf = u.sq_buf_addr;
	q->db = u.db_addr;
	q->sq_wqe_count = u.sq_wqe_count;
	q->rq_wqe_count = u.rq_wqe_count;
	q->rq_wqe_shift = u.rq_wqe_shift;
	q->uidx = u.uidx;
	q->bfreg = u.bfreg_index;
	r.ece_options = grant(u.ece_options);
	if (type == IB_UVERBS_QPT_RAW_PACKET) {
		r.comp_mask = MLX5_IB_CREATE_QP_RESP_MASK_RQN | MLX5_IB_CREATE_QP_RESP_MASK_SQN;
		r.rqn = 0x0d0001;
		r.sqn = 0x0e0001;
	}
	put(c, UVERBS_ATTR_UHW_OUT, &r, sizeof(r));
}

/* The number of a DCT comes with its move to RTR. */
static void modify_qp(struct write_cmd *w)
{
	struct mlx5_ib_modify_qp u = {};
	struct mlx5_ib_modify_qp_resp r = { .response_length = sizeof(r), .dctn = 0x0dc701 };

	memcpy(&u, w->drv_in, w->drv_in_len < sizeof(u) ? w->drv_in_len : sizeof(u));
	r.ece_options = grant(u.ece_options);
	answer(w->drv_out, w->drv_out_len, &r, sizeof(r));
}

static void create_srq(struct call *c, struct fake_srq *q, uint32_t *wr, uint32_t *sge)
{
	struct mlx5_ib_create_srq u;
	struct mlx5_ib_create_srq_resp r = { .srqn = q->srqn };

	(void)wr;
	(void)sge;
	get(c, UVERBS_ATTR_UHW_IN, &u, sizeof(u));
	q->buf = u.buf_addr;
	q->db = u.db_addr;
	q->uidx = u.uidx;
	put(c, UVERBS_ATTR_UHW_OUT, &r, sizeof(r));
}

static int alloc_uar(struct call *c)
{
	static uint32_t page = 0x10;
	uint32_t len = 4096, id = page++;
	uint64_t offset;

	give_memory(len, &offset);
	put(c, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, &offset, sizeof(offset));
	put(c, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, &len, sizeof(len));
	put(c, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, &id, sizeof(id));
	put_handle(c, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, new_handle());
	return 0;
}

static int own_object(struct call *c)
{
	if (c->hdr->object_id != MLX5_IB_OBJECT_UAR)
		return EPROTONOSUPPORT;
	if (c->hdr->method_id == MLX5_IB_METHOD_UAR_OBJ_ALLOC)
		return alloc_uar(c);
	return 0;
}

/* The pages of legacy registers are mapped by number, without a command. */
static void *own_mmap(uint64_t offset, size_t len)
{
	uint64_t unused;

	(void)offset;
	return give_memory(len, &unused);
}

const struct driver_ops fakeuv_mlx5 = {
	.first_qpn = 0x0abc01,
	.get_context = get_context,
	.query_device = query_device,
	.alloc_pd = alloc_pd,
	.create_ah = create_ah,
	.create_cq = create_cq,
	.resize_cq = resize_cq,
	.create_qp = create_qp,
	.modify_qp = modify_qp,
	.create_srq = create_srq,
	.own_object = own_object,
	.own_mmap = own_mmap,
};
