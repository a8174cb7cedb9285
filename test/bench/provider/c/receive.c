/* SPDX-License-Identifier: Apache-2.0 */

/* Measures polling of receives with libmlx5, on the fake device of test/oracle.
 *
 *	receive plain|data BATCH ROUNDS POLLERS
 *
 * Receives have 16 bytes. The device has written them to their memory (plain), or puts
 * them into the CQE (data). Each poller has its own processor, CQ and QP. The program
 * prints the medians of ROUNDS rounds of each poller, in nanoseconds for each posted
 * receive and for each polled completion. */
#define _GNU_SOURCE
#include <endian.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/mlx5dv.h>

#include "bench.h"

enum { MAX_POLLERS = 2, LENGTH = 16, ELEMENT = 64, YIELD_AFTER = 1 << 17 };

struct lane {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct fake_cq *fake_cq;
	struct fake_qp *fake_qp;
	struct ibv_sge sge;
	uint32_t produced;
	int cpu;
	pthread_t thread;
	double *post, *poll;
} __attribute__((aligned(64)));

static struct lane lanes[MAX_POLLERS];
static bool in_cqe;
static int batch, rounds, pollers;
static uint32_t arrived; /* pollers at the start of a round */
static uint8_t data[4096] __attribute__((aligned(4096)));

/* complete acts as the device, and completes the posted requests of a round. */
static void complete(struct lane *l)
{
	uint32_t n = l->fake_cq->cqe + 1;
	struct mlx5_cqe64 *ring = (struct mlx5_cqe64 *)(uintptr_t)l->fake_cq->buf;

	for (int i = 0; i < ROUND; i++) {
		struct mlx5_cqe64 *c = &ring[l->produced & (n - 1)];
		uint8_t last = MLX5_CQE_RESP_SEND << 4 | (in_cqe ? MLX5_INLINE_SCATTER_32 : 0) | !!(l->produced & n);
		memset(c, 0, offsetof(struct mlx5_cqe64, op_own));
		if (in_cqe)
			memset(c, 0xa5, LENGTH);
		c->srqn_uidx = htobe32(l->fake_qp->uidx);
		c->sop_drop_qpn = htobe32(l->qp->qp_num);
		c->wqe_counter = htobe16(l->produced);
		c->byte_cnt = htobe32(LENGTH);
		__atomic_store_n(&c->op_own, last, __ATOMIC_RELEASE);
		l->produced++;
	}
}

__attribute__((noinline)) void measure_recv(struct ibv_qp *qp, struct ibv_recv_wr *w, int calls)
{
	struct ibv_recv_wr *bad;

	for (int i = 0; i < calls; i++)
		if (ibv_post_recv(qp, w, &bad))
			abort();
}

__attribute__((noinline)) void measure_poll(struct ibv_cq *cq, struct ibv_wc *wc)
{
	for (int got = 0; got < ROUND;) {
		int n = ibv_poll_cq(cq, batch, wc);
		if (n <= 0 || wc[0].status)
			abort();
		got += n;
	}
}

/* meet waits until all pollers begin round r. */
static void meet(int r)
{
	__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
	for (int i = 1; __atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < (uint32_t)(pollers * (r + 1)); i++)
		if (i % YIELD_AFTER == 0)
			sched_yield();
}

static void *run(void *arg)
{
	struct lane *l = arg;
	struct ibv_recv_wr w[MAX_BATCH] = {};
	struct ibv_wc wc[MAX_BATCH];
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(l->cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set))
		die("sched_setaffinity");
	for (int i = 0; i < batch; i++) {
		w[i].wr_id = i;
		w[i].next = i + 1 < batch ? &w[i + 1] : NULL;
		w[i].sg_list = &l->sge;
		w[i].num_sge = 1;
	}
	for (int r = 0; r < rounds; r++) {
		double t0 = now();
		measure_recv(l->qp, w, ROUND / batch);
		double t1 = now();
		complete(l);
		meet(r);
		double t2 = now();
		measure_poll(l->cq, wc);
		double t3 = now();
		l->post[r] = (t1 - t0) / ROUND;
		l->poll[r] = (t3 - t2) / ROUND;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return fprintf(stderr, "usage: receive plain|data BATCH ROUNDS POLLERS\n"), 2;
	in_cqe = !strcmp(argv[1], "data");
	batch = atoi(argv[2]), rounds = atoi(argv[3]), pollers = atoi(argv[4]);
	int cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (batch < 1 || batch > MAX_BATCH || ROUND % batch || rounds < 1 || pollers < 1 || pollers > MAX_POLLERS || pollers > cpus)
		return 2;

	struct fake_state *fake = fake_kernel();
	struct ibv_context *ctx = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_mr *mr = ibv_reg_mr(pd, data, sizeof data, IBV_ACCESS_LOCAL_WRITE);
	if (!mr)
		die("MR");
	double *all = calloc(2 * MAX_POLLERS * rounds, sizeof *all);
	for (int i = 0; i < pollers; i++) {
		struct lane *l = &lanes[i];
		l->cq = ibv_create_cq(ctx, 1023, NULL, NULL, 0);
		if (!l->cq)
			die("CQ");
		struct ibv_qp_init_attr attr = {
			.send_cq = l->cq, .recv_cq = l->cq, .qp_type = IBV_QPT_RC,
			.cap = { .max_send_wr = 1, .max_recv_wr = ROUND, .max_send_sge = 1, .max_recv_sge = 1 },
		};
		l->qp = ibv_create_qp(pd, &attr);
		if (!l->qp)
			die("QP");
		to_rts(l->qp);
		l->fake_cq = &fake->cq[i];
		l->fake_qp = &fake->qp[i];
		l->sge = (struct ibv_sge){ (uintptr_t)data + i * ELEMENT, ELEMENT, mr->lkey };
		l->cpu = cpus - 1 - i;
		l->post = all + i * rounds;
		l->poll = all + (MAX_POLLERS + i) * rounds;
		if (pthread_create(&l->thread, NULL, run, l))
			die("thread");
	}
	for (int i = 0; i < pollers; i++)
		pthread_join(lanes[i].thread, NULL);
	/* The results of the pollers are stored one after the other. */
	qsort(all, pollers * rounds, sizeof *all, by_size);
	qsort(all + MAX_POLLERS * rounds, pollers * rounds, sizeof *all, by_size);
	printf("%.2f %.2f\n", all[pollers * rounds / 2], all[MAX_POLLERS * rounds + pollers * rounds / 2]);
	return 0;
}
