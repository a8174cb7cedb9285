/* SPDX-License-Identifier: Apache-2.0 */

/* Posted requests and completions, as parts of records. */
#include <string.h>

#include "out.h"
#include "rig.h"

static void print_sges(const struct ibv_sge *s, int n)
{
	out_open("sge", '[');
	for (int i = 0; i < n; i++) {
		out_open(NULL, '[');
		out_u64(NULL, s[i].addr);
		out_num(NULL, s[i].length);
		out_num(NULL, s[i].lkey);
		out_close(']');
	}
	out_close(']');
}

static const char *opcodes[] = {
	[IBV_WR_RDMA_WRITE] = "WRITE", [IBV_WR_RDMA_WRITE_WITH_IMM] = "WRITE_WITH_IMM", [IBV_WR_SEND] = "SEND",
	[IBV_WR_SEND_WITH_IMM] = "SEND_WITH_IMM", [IBV_WR_RDMA_READ] = "READ", [IBV_WR_ATOMIC_CMP_AND_SWP] = "COMPARE_SWAP",
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = "FETCH_ADD", [IBV_WR_LOCAL_INV] = "LOCAL_INV", [IBV_WR_BIND_MW] = "BIND_MW",
	[IBV_WR_SEND_WITH_INV] = "SEND_WITH_INV", [IBV_WR_TSO] = "TSO",
};

static void print_bind(uint32_t mw, uint32_t rkey, const struct ibv_mw_bind_info *b)
{
	out_open("bind", '{');
	out_num("mw", mw);
	out_num("rkey", rkey);
	out_num("lkey", b->mr ? b->mr->lkey : 0);
	out_u64("addr", b->addr);
	out_u64("len", b->length);
	out_num("access", b->mw_access_flags);
	out_close('}');
}

void print_send_wr(const struct ibv_send_wr *w, const char *ah)
{
	const char *op = w->opcode < sizeof(opcodes) / sizeof(*opcodes) ? opcodes[w->opcode] : NULL;

	out_open(NULL, '{');
	out_u64("id", w->wr_id);
	if (op)
		out_str("op", op);
	out_num("opcode", w->opcode);
	out_num("flags", w->send_flags);
	switch (w->opcode) {
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		out_num("imm", be32toh(w->imm_data));
		break;
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_LOCAL_INV:
		out_num("inv", w->invalidate_rkey);
		break;
	case IBV_WR_BIND_MW:
		print_bind(w->bind_mw.mw->rkey, w->bind_mw.rkey, &w->bind_mw.bind_info);
		break;
	case IBV_WR_TSO:
		out_hex("hdr", w->tso.hdr, w->tso.hdr_sz);
		out_num("mss", w->tso.mss);
		break;
	default:
		break;
	}
	switch (w->opcode) {
	case IBV_WR_RDMA_READ:
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		out_u64("raddr", w->wr.rdma.remote_addr);
		out_num("rkey", w->wr.rdma.rkey);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		out_u64("raddr", w->wr.atomic.remote_addr);
		out_num("rkey", w->wr.atomic.rkey);
		out_u64("cmp", w->wr.atomic.compare_add);
		out_u64("swap", w->wr.atomic.swap);
		break;
	default:
		break;
	}
	if (ah) {
		out_str("ah", ah);
		out_num("rqpn", w->wr.ud.remote_qpn);
		out_num("qkey", w->wr.ud.remote_qkey);
	}
	if (w->qp_type.xrc.remote_srqn)
		out_num("xrc_srqn", w->qp_type.xrc.remote_srqn);
	print_sges(w->sg_list, w->num_sge);
	out_close('}');
}

void print_recv_wrs(const struct ibv_recv_wr *w)
{
	out_open("wrs", '[');
	for (; w; w = w->next) {
		out_open(NULL, '{');
		out_u64("id", w->wr_id);
		print_sges(w->sg_list, w->num_sge);
		out_close('}');
	}
	out_close(']');
}

void print_cap(const char *key, const struct ibv_qp_cap *c)
{
	out_open(key, '[');
	out_num(NULL, c->max_send_wr);
	out_num(NULL, c->max_recv_wr);
	out_num(NULL, c->max_send_sge);
	out_num(NULL, c->max_recv_sge);
	out_num(NULL, c->max_inline_data);
	out_close(']');
}

int bad_send(const struct ibv_send_wr *list, const struct ibv_send_wr *bad)
{
	for (int i = 0; bad && list; list = list->next, i++)
		if (list == bad)
			return i;
	return -1;
}

int bad_recv(const struct ibv_recv_wr *list, const struct ibv_recv_wr *bad)
{
	for (int i = 0; bad && list; list = list->next, i++)
		if (list == bad)
			return i;
	return -1;
}

/* print_wc omits members that the library did not write, which are poison. */
void print_wc(const struct ibv_wc *wc)
{
	struct ibv_wc untouched;

	memset(&untouched, POISON, sizeof(untouched));
#define FIELD(key, f)             \
	if (wc->f != untouched.f) \
		out_u64(key, wc->f)
	out_open(NULL, '{');
	FIELD("id", wr_id);
	FIELD("status", status);
	FIELD("opcode", opcode);
	FIELD("vendor_err", vendor_err);
	FIELD("byte_len", byte_len);
	FIELD("qpn", qp_num);
	FIELD("src_qp", src_qp);
	FIELD("flags", wc_flags);
	FIELD("pkey_index", pkey_index);
	FIELD("slid", slid);
	FIELD("sl", sl);
	FIELD("path_bits", dlid_path_bits);
#undef FIELD
	/* A completion of a send with immediate data also has the flag. */
	if (wc->status == IBV_WC_SUCCESS && wc->opcode & IBV_WC_RECV && wc->wc_flags & IBV_WC_WITH_IMM)
		out_u64("imm", be32toh(wc->imm_data));
	if (wc->status == IBV_WC_SUCCESS && wc->opcode & IBV_WC_RECV && wc->wc_flags & IBV_WC_WITH_INV)
		out_u64("inv", wc->invalidated_rkey);
	out_close('}');
}
