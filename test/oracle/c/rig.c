/* SPDX-License-Identifier: Apache-2.0 */

#define _GNU_SOURCE
#include "rig.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "out.h"

struct fake_state *fake;
struct ibv_context *ctx;
struct ibv_pd *pd;
struct ibv_mr *mr;
static uint64_t state = 88172645463325252ull;

void die(const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "%s:%d: ", file, line);
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, ": %s\n", strerror(errno));
	va_end(ap);
	exit(1);
}

/* xorshift64 */
uint64_t rnd64(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Seeds that differ little must not give lists that do. */
void start_random(const char *seed)
{
	state ^= strtoull(seed, NULL, 0) * 0x9e3779b97f4a7c15ull;
	if (!state)
		state = 1;
	for (int i = 0; i < 16; i++)
		rnd64();
}

uint32_t rnd(uint32_t n)
{
	return (rnd64() >> 11) % n;
}

const char *named(char *id, const char *kind, int *count)
{
	snprintf(id, 8, "%s%d", kind, (*count)++);
	return id;
}

void reset_data(void)
{
	for (uint32_t i = 0; i < DATA_LEN; i++)
		DATA[i] = (i * 7 + (i >> 8)) | 1;
}

static void print_env(const char *key)
{
	const char *v = getenv(key);

	if (v)
		out_str(key, v);
}

void open_device(const char *name)
{
	struct ibv_device **list;

	fake = dlsym(RTLD_DEFAULT, "fakeuv");
	if (!fake)
		DIE("libfakeuv.so is not preloaded");
	if (mmap(DATA, DATA_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != DATA)
		DIE("mmap");
	reset_data();
	list = ibv_get_device_list(NULL);
	if (!list || !list[0])
		DIE("no device");
	ctx = ibv_open_device(list[0]);
	if (!ctx)
		DIE("ibv_open_device");
	rec("open", name);
	out_open("env", '{');
	print_env("FAKEUV_UAR");
	print_env("FAKEUV_BF");
	print_env("FAKEUV_INLINE");
	print_env("MLX5_SINGLE_THREADED");
	print_env("MLX5_CQE_SIZE");
	out_close('}');
	rec_end();

	pd = ibv_alloc_pd(ctx);
	if (!pd)
		DIE("ibv_alloc_pd");
	rec("pd", NULL);
	out_str("id", "pd0");
	rec_end();

	mr = ibv_reg_mr(pd, DATA, DATA_LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND);
	if (!mr)
		DIE("ibv_reg_mr");
	rec("mr", NULL);
	out_str("id", "mr0");
	out_u64("addr", (uintptr_t)DATA);
	out_num("len", DATA_LEN);
	out_num("access", 1 | 2 | 4 | 16);
	out_num("lkey", mr->lkey);
	out_num("rkey", mr->rkey);
	rec_end();
}

static int ncq, nsrq;

struct cq *make_cq(int cqe)
{
	struct cq *c = calloc(1, sizeof(*c));

	c->ibv = ibv_create_cq(ctx, cqe, NULL, NULL, 0);
	rec("cq", NULL);
	out_str("id", named(c->id, "cq", &ncq));
	out_num("cqe", cqe);
	out_num("rc", c->ibv ? 0 : errno);
	if (c->ibv)
		out_num("got", c->ibv->cqe);
	rec_end();
	if (!c->ibv)
		return NULL;
	c->k = &fake->cq[fake->ncq - 1];
	return c;
}

struct srq *make_srq(int wr, int sge)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = wr, .max_sge = sge } };
	struct srq *s = calloc(1, sizeof(*s));

	s->ibv = ibv_create_srq(pd, &a);
	rec("srq", NULL);
	out_str("id", named(s->id, "srq", &nsrq));
	out_num("wr", wr);
	out_num("sge", sge);
	out_num("rc", s->ibv ? 0 : errno);
	if (s->ibv) {
		out_num("got_wr", a.attr.max_wr);
		out_num("got_sge", a.attr.max_sge);
	}
	rec_end();
	if (!s->ibv)
		return NULL;
	s->k = &fake->srq[fake->nsrq - 1];
	s->got_sge = a.attr.max_sge;
	return s;
}

struct ibv_ah *make_ah(const char *id, struct ibv_ah_attr *a)
{
	struct ibv_ah *ah = ibv_create_ah(pd, a);

	rec("ah", NULL);
	out_str("id", id);
	out_num("global", a->is_global);
	out_hex("dgid", a->grh.dgid.raw, 16);
	out_num("flow", a->grh.flow_label);
	out_num("sgid", a->grh.sgid_index);
	out_num("hop", a->grh.hop_limit);
	out_num("tclass", a->grh.traffic_class);
	out_num("dlid", a->dlid);
	out_num("sl", a->sl);
	out_num("path_bits", a->src_path_bits);
	out_num("rate", a->static_rate);
	out_num("port", a->port_num);
	out_num("rc", ah ? 0 : errno);
	rec_end();
	return ah;
}

struct ibv_mw *make_mw(const char *id, enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, type);

	if (!mw)
		DIE("ibv_alloc_mw");
	rec("mw", NULL);
	out_str("id", id);
	out_num("type", type);
	out_num("rkey", mw->rkey);
	rec_end();
	return mw;
}

static const char *states[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

void move_qp(struct qp *q, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state, .port_num = 1, .path_mtu = IBV_MTU_1024, .dest_qp_num = 5, .qkey = 0x11111111 };
	int mask = IBV_QP_STATE, rc;

	/* What else the kernel wants is not the library's business: the fake one
	 * takes anything. */
	if (state == IBV_QPS_INIT)
		mask |= IBV_QP_PORT | IBV_QP_PKEY_INDEX;
	if (state == IBV_QPS_INIT && q->ibv->qp_type == IBV_QPT_UD)
		mask |= IBV_QP_QKEY;
	if (q->ibv->qp_type == IBV_QPT_RAW_PACKET && state == IBV_QPS_INIT)
		mask = IBV_QP_STATE | IBV_QP_PORT;
	rc = ibv_modify_qp(q->ibv, &a, mask);
	rec("modify", NULL);
	out_str("qp", q->id);
	out_str("state", states[state]);
	out_num("mask", mask);
	out_num("rc", rc);
	rec_end();
}

void ready(struct qp *q)
{
	move_qp(q, IBV_QPS_INIT);
	move_qp(q, IBV_QPS_RTR);
	move_qp(q, IBV_QPS_RTS);
}

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

struct ibv_send_wr work(int opcode, int flags, struct ibv_sge *s, int n)
{
	static uint64_t id = 0x1122334455667700ull;
	struct ibv_send_wr w = { .wr_id = id++, .opcode = opcode, .send_flags = flags, .sg_list = s, .num_sge = n };

	switch (opcode) {
	case IBV_WR_SEND_WITH_IMM:
		w.imm_data = htobe32(0xa1b2c3d4);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		w.imm_data = htobe32(0x01020304);
		/* fall through */
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_READ:
		w.wr.rdma.remote_addr = 0x7f1122334455ull;
		w.wr.rdma.rkey = 0xdeadbe01;
		break;
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_LOCAL_INV:
		w.invalidate_rkey = 0xa1b2c3d5;
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		w.wr.atomic.remote_addr = 0x7f1122334458ull;
		w.wr.atomic.compare_add = 0x0102030405060708ull;
		w.wr.atomic.swap = 0x1112131415161718ull;
		w.wr.atomic.rkey = 0xdeadbe02;
		break;
	}
	return w;
}

struct ibv_sge piece(uint32_t at, uint32_t len)
{
	return (struct ibv_sge){ (uintptr_t)DATA + at, len, mr->lkey };
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

/* print_wc leaves out what the library has left as it was: poison. */
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
	/* Of what was sent with immediate data the flag tells, too. */
	if (wc->status == IBV_WC_SUCCESS && wc->opcode & IBV_WC_RECV && wc->wc_flags & IBV_WC_WITH_IMM)
		out_u64("imm", be32toh(wc->imm_data));
	if (wc->status == IBV_WC_SUCCESS && wc->opcode & IBV_WC_RECV && wc->wc_flags & IBV_WC_WITH_INV)
		out_u64("inv", wc->invalidated_rkey);
	out_close('}');
}
