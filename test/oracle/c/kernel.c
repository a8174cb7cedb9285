/* SPDX-License-Identifier: Apache-2.0 */

/* The fake kernel: the responses that are equal for all drivers. All numbers are
 * fixed, so that two runs give the same bytes. */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "kernel.h"

static uint32_t last_handle;

uint32_t new_handle(void)
{
	return ++last_handle;
}

void answer(void *dst, size_t room, const void *src, size_t n)
{
	if (!dst)
		return;
	memset(dst, 0, room);
	memcpy(dst, src, n < room ? n : room);
}

static void query_device(struct write_cmd *w)
{
	struct ib_uverbs_ex_query_device_resp r = { .response_length = sizeof(r) };
	struct ib_uverbs_query_device_resp *b = &r.base;

	b->fw_ver = 22ull << 32 | 36ull << 16 | 1010;
	b->node_guid = htobe64(0x0002c90300000001ull);
	b->sys_image_guid = b->node_guid;
	b->max_mr_size = ~0ull;
	b->page_size_cap = 0xfffff000;
	b->vendor_id = 0x2c9;
	b->vendor_part_id = 4121;
	b->max_qp = 1 << 18;
	b->max_qp_wr = 32768;
	b->device_cap_flags = 0xe5721c36;
	b->max_sge = 30;
	b->max_sge_rd = 30;
	b->max_cq = 1 << 24;
	b->max_cqe = 4194303;
	b->max_mr = 1 << 24;
	b->max_pd = 1 << 24;
	b->max_qp_rd_atom = 16;
	b->max_res_rd_atom = 1 << 22;
	b->max_qp_init_rd_atom = 16;
	b->atomic_cap = 1;
	b->max_mw = 1 << 24;
	b->max_ah = 1 << 30;
	b->max_srq = 1 << 23;
	b->max_srq_wr = 32767;
	b->max_srq_sge = 31;
	b->max_pkeys = 128;
	b->local_ca_ack_delay = 16;
	b->phys_port_cnt = 1;
	if (w->resp_len <= sizeof(*b))
		answer(w->resp, w->resp_len, b, sizeof(*b));
	else
		answer(w->resp, w->resp_len, &r, sizeof(r));
	if (ops->query_device)
		ops->query_device(w);
}

static void reg_mr(struct write_cmd *w)
{
	struct ib_uverbs_reg_mr_resp r = { .mr_handle = new_handle() };

	r.lkey = r.rkey = 0x00a1b233 + 0x10100 * fakeuv.nmr++;
	answer(w->resp, w->resp_len, &r, sizeof(r));
	if (ops->reg_mr)
		ops->reg_mr(w, r.lkey);
}

static void resize_cq(struct write_cmd *w)
{
	struct ib_uverbs_resize_cq q = {};
	struct ib_uverbs_resize_cq_resp r = {};

	memcpy(&q, w->req, w->req_len < sizeof(q) ? w->req_len : sizeof(q));
	r.cqe = q.cqe;
	for (int i = 0; i < fakeuv.ncq; i++) {
		if (fakeuv.cq[i].handle != q.cq_handle)
			continue;
		if (fakeuv.on_resize)
			fakeuv.on_resize(q.cq_handle);
		if (ops->resize_cq)
			ops->resize_cq(w, &fakeuv.cq[i], q.cqe);
		fakeuv.cq[i].cqe = q.cqe;
	}
	answer(w->resp, w->resp_len, &r, sizeof(r));
}

int run_write(struct write_cmd *w)
{
	uint32_t handle;

	switch (w->num) {
	case IB_USER_VERBS_CMD_QUERY_DEVICE:
	case IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_QUERY_DEVICE:
		query_device(w);
		return 0;
	case IB_USER_VERBS_CMD_ALLOC_PD:
		handle = new_handle();
		answer(w->resp, w->resp_len, &handle, sizeof(handle));
		if (ops->alloc_pd)
			ops->alloc_pd(w);
		return 0;
	case IB_USER_VERBS_CMD_REG_MR:
		reg_mr(w);
		return 0;
	case IB_USER_VERBS_CMD_ALLOC_MW: {
		struct ib_uverbs_alloc_mw_resp r = { .mw_handle = new_handle() };

		r.rkey = 0x00c0de00 + 0x100 * fakeuv.nmw++;
		answer(w->resp, w->resp_len, &r, sizeof(r));
		return 0;
	}
	case IB_USER_VERBS_CMD_OPEN_XRCD:
		handle = new_handle();
		answer(w->resp, w->resp_len, &handle, sizeof(handle));
		return 0;
	case IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL:
		handle = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		answer(w->resp, w->resp_len, &handle, sizeof(handle));
		return 0;
	case IB_USER_VERBS_CMD_CREATE_AH:
		handle = new_handle();
		answer(w->resp, w->resp_len, &handle, sizeof(handle));
		if (ops->create_ah)
			ops->create_ah(w);
		return 0;
	case IB_USER_VERBS_CMD_RESIZE_CQ:
		resize_cq(w);
		return 0;
	case IB_USER_VERBS_CMD_POLL_CQ:
		answer(w->resp, w->resp_len, "\0\0\0\0", 4);
		return 0;
	case IB_USER_VERBS_CMD_REQ_NOTIFY_CQ:
		fakeuv.arms++;
		fakeuv.arm_solicited = ((const struct ib_uverbs_req_notify_cq *)w->req)->solicited_only;
		return 0;
	case IB_USER_VERBS_CMD_POST_SEND:
		fakeuv.doorbells++;
		/* fall through */
	case IB_USER_VERBS_CMD_POST_RECV:
		answer(w->resp, w->resp_len, "\0\0\0\0", 4);
		return 0;
	case IB_USER_VERBS_CMD_MODIFY_QP:
	case IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_MODIFY_QP:
		answer(w->resp, w->resp_len, "", 0);
		answer(w->drv_out, w->drv_out_len, "", 0);
		if (ops->modify_qp)
			ops->modify_qp(w);
		return 0;
	case IB_USER_VERBS_CMD_DEALLOC_PD:
	case IB_USER_VERBS_CMD_DEREG_MR:
	case IB_USER_VERBS_CMD_DEALLOC_MW:
	case IB_USER_VERBS_CMD_CLOSE_XRCD:
	case IB_USER_VERBS_CMD_DESTROY_CQ:
	case IB_USER_VERBS_CMD_DESTROY_QP:
	case IB_USER_VERBS_CMD_DESTROY_SRQ:
	case IB_USER_VERBS_CMD_DESTROY_AH:
	case IB_USER_VERBS_CMD_MODIFY_SRQ:
		answer(w->resp, w->resp_len, "", 0);
		answer(w->drv_out, w->drv_out_len, "", 0);
		return 0;
	}
	return EOPNOTSUPP;
}

static void query_port(struct call *c)
{
	struct ib_uverbs_query_port_resp_ex r = {
		.legacy_resp = {
			.max_msg_sz = 1 << 30, .gid_tbl_len = 256, .pkey_tbl_len = 1, .state = 4, .max_mtu = 5,
			.active_mtu = 3, .max_vl_num = 1, .active_width = 2, .active_speed = 32, .phys_state = 5,
			.port_cap_flags = 0x04010000, .link_layer = 2, /* Ethernet */
		},
	};

	put(c, UVERBS_ATTR_QUERY_PORT_RESP, &r, sizeof(r));
}

/* The GID at index 1 is of RoCE v1, the others of v2. */
static void query_gid_entry(struct call *c)
{
	struct ib_uverbs_gid_entry e = { .gid = { htobe64(0xfe80000000000000ull), htobe64(0x0202c9fffe000001ull) }, .port_num = 1 };

	get(c, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, &e.gid_index, sizeof(e.gid_index));
	e.gid_type = e.gid_index == 1 ? IB_UVERBS_GID_TYPE_ROCE_V1 : IB_UVERBS_GID_TYPE_ROCE_V2;
	put(c, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &e, sizeof(e));
}

static int create_cq(struct call *c)
{
	struct fake_cq *q = &fakeuv.cq[fakeuv.ncq];

	if (fakeuv.ncq == MAX_OBJECTS)
		return ENOMEM;
	get(c, UVERBS_ATTR_CREATE_CQ_CQE, &q->cqe, sizeof(q->cqe));
	q->handle = new_handle();
	q->cqn = 0x401 + fakeuv.ncq++;
	ops->create_cq(c, q);
	put(c, UVERBS_ATTR_CREATE_CQ_RESP_CQE, &q->cqe, sizeof(q->cqe));
	put_handle(c, UVERBS_ATTR_CREATE_CQ_HANDLE, q->handle);
	return 0;
}

static int create_qp(struct call *c)
{
	struct fake_qp *q = &fakeuv.qp[fakeuv.nqp];
	struct ib_uverbs_qp_cap cap;
	uint64_t type;

	if (fakeuv.nqp == MAX_OBJECTS)
		return ENOMEM;
	get(c, UVERBS_ATTR_CREATE_QP_CAP, &cap, sizeof(cap));
	get(c, UVERBS_ATTR_CREATE_QP_TYPE, &type, sizeof(type));
	q->handle = new_handle();
	q->qpn = ops->first_qpn + fakeuv.nqp++;
	ops->create_qp(c, q, &cap, type);
	put(c, UVERBS_ATTR_CREATE_QP_RESP_CAP, &cap, sizeof(cap));
	put(c, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &q->qpn, sizeof(q->qpn));
	put_handle(c, UVERBS_ATTR_CREATE_QP_HANDLE, q->handle);
	return 0;
}

static int create_srq(struct call *c)
{
	struct fake_srq *q = &fakeuv.srq[fakeuv.nsrq];
	uint32_t wr, sge;

	if (fakeuv.nsrq == MAX_OBJECTS)
		return ENOMEM;
	get(c, UVERBS_ATTR_CREATE_SRQ_MAX_WR, &wr, sizeof(wr));
	get(c, UVERBS_ATTR_CREATE_SRQ_MAX_SGE, &sge, sizeof(sge));
	q->handle = new_handle();
	q->srqn = 0x901 + fakeuv.nsrq++;
	q->wr = wr;
	ops->create_srq(c, q, &wr, &sge);
	put(c, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, &wr, sizeof(wr));
	put(c, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &sge, sizeof(sge));
	put(c, UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, &q->srqn, sizeof(q->srqn));
	put_handle(c, UVERBS_ATTR_CREATE_SRQ_HANDLE, q->handle);
	return 0;
}

#define METHOD(object, method) ((uint32_t)(object) << 16 | (method))

int run_ioctl(struct call *c)
{
	static const uint64_t zeros[2];
	uint32_t vectors = 2;
	uint64_t support = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;

	switch (METHOD(c->hdr->object_id, c->hdr->method_id)) {
	case METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT):
		put(c, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &vectors, sizeof(vectors));
		put(c, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &support, sizeof(support));
		if (ops->get_context)
			ops->get_context(c);
		return 0;
	case METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT):
		query_port(c);
		return 0;
	case METHOD(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY):
		query_gid_entry(c);
		return 0;
	case METHOD(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC):
		put_handle(c, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, eventfd(0, EFD_CLOEXEC));
		return 0;
	case METHOD(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE):
		return create_cq(c);
	case METHOD(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE):
		return create_qp(c);
	case METHOD(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE):
		return create_srq(c);
	case METHOD(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY):
	case METHOD(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY):
	case METHOD(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY):
		/* The response has an equal number in all three. */
		put(c, UVERBS_ATTR_DESTROY_CQ_RESP, zeros, sizeof(zeros));
		return 0;
	case METHOD(UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY):
	case METHOD(UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY):
	case METHOD(UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY):
	case METHOD(UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY):
	case METHOD(UVERBS_OBJECT_XRCD, UVERBS_METHOD_XRCD_DESTROY):
		return 0;
	}
	return ops->own_object ? ops->own_object(c) : EPROTONOSUPPORT;
}
