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

/* Similar seeds must not result in similar lists. */
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
	const char *provider = getenv("FAKEUV_PROVIDER");
	struct ibv_device **list;

	/* A dumper that calls functions of its provider is linked with it. */
	if (provider && !dlopen(provider, RTLD_NOW)) {
		fprintf(stderr, "dlopen: %s\n", dlerror());
		exit(1);
	}
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
	print_env("FAKEUV_BFREG");
	print_env("FAKEUV_INLINE");
	print_env("FAKEUV_SDB");
	print_env("FAKEUV_CHIP");
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
	return make_cq_on(NULL, cqe);
}

struct cq *make_cq_on(struct ibv_comp_channel *channel, int cqe)
{
	struct cq *c = calloc(1, sizeof(*c));

	c->ibv = ibv_create_cq(ctx, cqe, NULL, channel, 0);
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

	/* The library does not check further requirements of the kernel: the fake kernel
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
