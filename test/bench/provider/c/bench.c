/* SPDX-License-Identifier: Apache-2.0 */

/* Measures posting and polling with a provider of rdma-core, on the fake device of test/oracle.
 *
 *	bench post|wr CASE BATCH ROUNDS
 *
 * It prints the medians of ROUNDS rounds, in nanoseconds for each posted request and for
 * each polled completion. post is ibv_post_send, and wr is the builder ibv_wr_*. Each
 * measured loop is a function, so that callgrind can count it. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <string.h>

#include "bench.h"

enum { LENGTH = 64 };

static const uint64_t remote = 0x7f1122334455ull;
static const uint32_t rkey = 0xdeadbe01;

static struct fake_state *fake;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_qp_ex *qx;
static struct ibv_mr *mr;
static uint8_t data[4096] __attribute__((aligned(4096)));

__attribute__((noinline)) void measure_post(struct ibv_send_wr *w, int calls)
{
	struct ibv_send_wr *bad;

	for (int i = 0; i < calls; i++)
		if (ibv_post_send(qp, w, &bad))
			abort();
}

__attribute__((noinline)) void measure_wr_write(int batch, int calls)
{
	for (int i = 0; i < calls; i++) {
		ibv_wr_start(qx);
		for (int k = 0; k < batch; k++) {
			qx->wr_id = k;
			qx->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_rdma_write(qx, rkey, remote);
			ibv_wr_set_sge(qx, mr->lkey, (uintptr_t)data, LENGTH);
		}
		if (ibv_wr_complete(qx))
			abort();
	}
}

__attribute__((noinline)) void measure_wr_inline(int batch, int calls)
{
	for (int i = 0; i < calls; i++) {
		ibv_wr_start(qx);
		for (int k = 0; k < batch; k++) {
			qx->wr_id = k;
			qx->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_send(qx);
			ibv_wr_set_inline_data(qx, data, LENGTH);
		}
		if (ibv_wr_complete(qx))
			abort();
	}
}

__attribute__((noinline)) void measure_poll(struct ibv_wc *wc, int batch)
{
	for (int got = 0; got < ROUND;) {
		int n = ibv_poll_cq(cq, batch, wc);
		if (n <= 0 || wc[0].status)
			abort();
		got += n;
	}
}

static void open_qp(bool builder)
{
	struct ibv_context *ctx = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	mr = ibv_reg_mr(pd, data, sizeof data, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	cq = ibv_create_cq(ctx, 1023, NULL, NULL, 0);
	if (!mr || !cq)
		die("MR, CQ");
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = pd,
		.cap = { .max_send_wr = 1024, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = LENGTH },
		.comp_mask = IBV_QP_INIT_ATTR_PD,
	};
	if (builder) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
	}
	qp = ibv_create_qp_ex(ctx, &attr);
	if (!qp)
		die("QP");
	if (builder)
		qx = ibv_qp_to_qp_ex(qp);
	to_rts(qp);
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return fprintf(stderr, "usage: bench post|wr inline|write BATCH ROUNDS\n"), 2;
	bool builder = !strcmp(argv[1], "wr"), inlined = !strcmp(argv[2], "inline");
	int batch = atoi(argv[3]), rounds = atoi(argv[4]);
	if (batch < 1 || batch > MAX_BATCH || ROUND % batch || rounds < 1)
		return 2;

	fake = fake_kernel();
	open_qp(builder);

	struct ibv_sge sge = { (uintptr_t)data, LENGTH, mr->lkey };
	struct ibv_send_wr w[MAX_BATCH] = {};
	struct ibv_wc wc[MAX_BATCH];
	for (int i = 0; i < batch; i++) {
		w[i].wr_id = i;
		w[i].next = i + 1 < batch ? &w[i + 1] : NULL;
		w[i].sg_list = &sge;
		w[i].num_sge = 1;
		w[i].opcode = inlined ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
		w[i].send_flags = IBV_SEND_SIGNALED | (inlined ? IBV_SEND_INLINE : 0);
		w[i].wr.rdma.remote_addr = remote;
		w[i].wr.rdma.rkey = rkey;
	}

	double *post = calloc(rounds, sizeof *post), *poll = calloc(rounds, sizeof *poll);
	for (int r = 0; r < rounds; r++) {
		double t0 = now();
		if (!builder)
			measure_post(w, ROUND / batch);
		else if (inlined)
			measure_wr_inline(batch, ROUND / batch);
		else
			measure_wr_write(batch, ROUND / batch);
		double t1 = now();
		complete_round(fake, inlined);
		double t2 = now();
		measure_poll(wc, batch);
		double t3 = now();
		post[r] = (t1 - t0) / ROUND;
		poll[r] = (t3 - t2) / ROUND;
	}
	qsort(post, rounds, sizeof *post, by_size);
	qsort(poll, rounds, sizeof *poll, by_size);
	printf("%.2f %.2f\n", post[rounds / 2], poll[rounds / 2]);
	return 0;
}
