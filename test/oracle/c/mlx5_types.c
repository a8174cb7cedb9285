/* SPDX-License-Identifier: Apache-2.0 */

/* UD, memory windows, raw packets. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mlx5.h"
#include "out.h"
#include "scenario.h"

/* Addresses of all kinds. Without a flow label libmlx5 chooses the UDP port of RoCE v2
 * at random. */
static struct ibv_ah *address(int i, char *id)
{
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = i, .hop_limit = 3 + i } };

	sprintf(id, "ah%d", i);
	a.grh.dgid.raw[10] = a.grh.dgid.raw[11] = 0xff;
	memcpy(a.grh.dgid.raw + 12, "\x0a\0\0\2", 4);
	a.grh.dgid.raw[15] += i;
	a.grh.flow_label = 0x12340 + i;
	if (i > 0) {
		a.grh.traffic_class = 0x10 * i + 3;
		a.sl = i;
		a.static_rate = i;
		a.src_path_bits = i;
		a.dlid = 0x100 + i;
	}
	if (i == 3) {
		memset(a.grh.dgid.raw, 0x20 + i, 16); /* no IPv4 */
	}
	return make_ah(id, &a);
}

void datagrams(void)
{
	struct cq *cq = make_cq(63);
	struct qp *q = mlx5_qp(IBV_QPT_UD, cq, cq, NULL, (struct ibv_qp_cap){ 16, 16, 3, 2, 128 }, false);
	struct ibv_sge s[3] = { piece(0x100, 64), piece(0x200, 100), piece(0x300, 3) };

	ready(q);
	for (int i = 0; i < 4; i++) {
		char id[8];
		struct ibv_ah *ah = address(i, id);

		if (!ah)
			continue;
		for (int f = 0; f < 16; f++)
			for (int op = IBV_WR_SEND; op <= IBV_WR_SEND_WITH_IMM; op++) {
				struct ibv_send_wr w = work(op, f | IBV_SEND_SIGNALED, s, 1 + f % 3);
				uint32_t at = q->sq_pos;
				struct cqe e;

				w.wr.ud.ah = ah;
				w.wr.ud.remote_qpn = 0x777 + i;
				w.wr.ud.remote_qkey = f & 1 ? 0x11111111 : 0x80010000;
				if (send("ud", q, &w, id))
					continue;
				e = requester(q, at, mlx_opcode[op], 0);
				done(q);
				poll("ud", cq, &e, 1, 4, 0, 0);
			}
	}
	for (int i = 0; i < 24; i++) {
		struct ibv_recv_wr r = { .wr_id = 0x5000 + i, .sg_list = s, .num_sge = i % 3 };
		struct cqe e;

		recv("ud_recv", q, &r);
		e = responder(q, i % 2 ? MLX5_CQE_RESP_SEND : MLX5_CQE_RESP_SEND_IMM, q->rq_pos - 1, 40 + i);
		e.c.flags_rqpn = htobe32((i % 4) << 28 | (i % 16) << 24 | (0x1000 + i));
		e.c.imm_inval_pkey = htobe32(0xaabb0000 + i);
		e.c.slid = htobe16(0x4321 + i);
		e.c.ml_path = 0x80 | i;
		e.c.hds_ip_ext = i % 8 < 4 ? 0xff : i;
		e.c.l4_hdr_type_etc = i * 5;
		q->rq_done = q->rq_pos;
		poll("ud_recv", cq, &e, 1, 4, 0, 0);
	}
}

/* Windows of both types, and invalidation. */
void windows(void)
{
	struct cq *cq = make_cq(63);
	struct qp *q = mlx5_qp(IBV_QPT_RC, cq, cq, NULL, (struct ibv_qp_cap){ 16, 16, 3, 2, 128 }, false);
	struct ibv_mw *one = make_mw("mw0", IBV_MW_TYPE_1), *two = make_mw("mw1", IBV_MW_TYPE_2);

	ready(q);
	for (int i = 0; i < 24; i++) {
		struct ibv_send_wr w = work(IBV_WR_BIND_MW, i % 8, NULL, 0);
		uint32_t at = q->sq_pos;
		struct cqe e;

		w.bind_mw.mw = two;
		w.bind_mw.rkey = ibv_inc_rkey(two->rkey);
		w.bind_mw.bind_info = (struct ibv_mw_bind_info){
			.mr = i == 20 ? NULL : mr, .addr = (uintptr_t)DATA + 0x1000 * i, .length = i == 20 ? 0 : 100 + i,
			.mw_access_flags = (i % 8) << 1 | (i == 21 ? IBV_ACCESS_ZERO_BASED : 0) };
		if (i == 22) { /* in the middle of a list */
			struct ibv_sge s = piece(0x100, 64);
			struct ibv_send_wr l[2] = { work(IBV_WR_SEND, IBV_SEND_SIGNALED, &s, 1), work(IBV_WR_SEND, IBV_SEND_SIGNALED, &s, 1) };

			l[0].next = &w;
			w.next = &l[1];
			send("bind_in_list", q, l, NULL);
			e = requester(q, q->sq_pos - 1, MLX5_OPCODE_SEND, 0);
			done(q);
			poll("bind_in_list", cq, &e, 1, 4, 0, 0);
			continue;
		}
		if (!send("bind", q, &w, NULL) && w.send_flags & IBV_SEND_SIGNALED) {
			e = requester(q, at, MLX5_OPCODE_UMR, 0);
			done(q);
			poll("bind", cq, &e, 1, 4, 0, 0);
		}
		post_one("local_inv", q, IBV_WR_LOCAL_INV, (i + 3) % 8, NULL, 0);
	}
	/* ibv_bind_mw builds the request itself. */
	for (int i = 0; i < 3; i++) {
		struct ibv_mw_bind b = { .wr_id = 0x77 + i, .send_flags = IBV_SEND_SIGNALED,
			.bind_info = { .mr = mr, .addr = (uintptr_t)DATA + 64 * i, .length = i == 2 ? 0 : 4096, .mw_access_flags = IBV_ACCESS_REMOTE_READ } };
		uint32_t at = q->sq_pos;
		struct cqe e;
		int rc;

		watch(q);
		rc = ibv_bind_mw(q->ibv, one, &b);
		rec("bind", "bind_mw");
		out_str("qp", q->id);
		out_str("mw", "mw0");
		out_u64("wr_id", b.wr_id);
		out_num("flags", b.send_flags);
		out_num("lkey", mr->lkey);
		out_u64("addr", b.bind_info.addr);
		out_u64("len", b.bind_info.length);
		out_num("access", b.bind_info.mw_access_flags);
		out_num("rc", rc);
		out_num("rkey", one->rkey);
		see_stores(q);
		rec_end();
		if (rc)
			continue;
		e = requester(q, at, MLX5_OPCODE_UMR, 0);
		done(q);
		poll("bind_mw", cq, &e, 1, 4, 0, 0);
	}
}

/* Whole frames; segmentation by the device. */
void raw(void)
{
	struct cq *cq = make_cq(63);
	struct qp *q = mlx5_qp_ex(IBV_QPT_RAW_PACKET, cq, cq, NULL, (struct ibv_qp_cap){ 16, 16, 4, 2, 128 }, &(struct qp_extra){ .tso_header = 128 });

	if (!q)
		DIE("no QP");
	ready(q);
	for (int i = 0; i < 48; i++) {
		struct ibv_sge s[4];
		struct ibv_send_wr w;
		uint32_t at = q->sq_pos;
		struct cqe e;

		for (int k = 0; k < 4; k++)
			s[k] = piece(0x1000 * k + i, k == 0 ? 10 + i * 2 : 100 + i);
		w = work(IBV_WR_SEND, IBV_SEND_SIGNALED | (i % 4 == 1 ? IBV_SEND_INLINE : 0) | (i % 4 == 2 ? IBV_SEND_IP_CSUM : 0), s, 1 + i % (i % 4 == 1 ? 1 : 4));
		if (i >= 36) {
			w.opcode = IBV_WR_TSO;
			w.send_flags &= ~IBV_SEND_INLINE;
			w.tso.hdr = DATA + 0x5000;
			w.tso.hdr_sz = 14 + (i - 36) * 10;
			w.tso.mss = 1000 + i;
		}
		if (send("raw", q, &w, NULL))
			continue;
		e = requester(q, at, mlx_opcode[w.opcode], 0);
		done(q);
		poll("raw", cq, &e, 1, 4, 0, 0);
	}
	for (int i = 0; i < 20; i++) {
		struct ibv_sge s = piece(0x80000, 1500);
		struct ibv_recv_wr r = { .wr_id = 0x5000 + i, .sg_list = &s, .num_sge = 1 };
		struct cqe e;

		recv("raw_recv", q, &r);
		e = responder(q, MLX5_CQE_RESP_SEND, q->rq_pos - 1, 60 + i);
		e.c.hds_ip_ext = i < 8 ? i : 0xff;
		e.c.l4_hdr_type_etc = i * 4;
		q->rq_done = q->rq_pos;
		poll("raw_recv", cq, &e, 1, 4, 0, 0);
	}
}
