/* SPDX-License-Identifier: Apache-2.0 */

/* The common parts of the C benchmarks. */
#ifndef BENCH_H
#define BENCH_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <infiniband/verbs.h>

#include "fakeuv.h"

enum { ROUND = 512, MAX_BATCH = 64 };

/* complete_round acts as the device, and completes the posted requests of a round (mlx5.c, erdma.c, bnxt_re.c). */
void complete_round(struct fake_state *fake, bool inlined);

static inline void die(const char *what)
{
	perror(what);
	exit(1);
}

static inline double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static inline int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

/* fake_kernel returns the state of the preloaded kernel. */
static inline struct fake_state *fake_kernel(void)
{
	struct fake_state *fake = dlsym(RTLD_DEFAULT, "fakeuv");
	if (!fake) {
		fprintf(stderr, "bench: the fake kernel is not loaded\n");
		exit(1);
	}
	return fake;
}

static inline struct ibv_context *open_device(void)
{
	const char *provider = getenv("FAKEUV_PROVIDER");
	if (provider && !dlopen(provider, RTLD_NOW)) {
		fprintf(stderr, "dlopen: %s\n", dlerror());
		exit(1);
	}
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	if (!ctx)
		die("open");
	return ctx;
}

static inline void to_rts(struct ibv_qp *qp)
{
	for (int s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		/* libbnxt_re needs the MTU and the first PSN. */
		struct ibv_qp_attr a = { .qp_state = s, .path_mtu = IBV_MTU_1024 };
		int with = s == IBV_QPS_RTR ? IBV_QP_PATH_MTU : s == IBV_QPS_RTS ? IBV_QP_SQ_PSN : 0;
		if (ibv_modify_qp(qp, &a, IBV_QP_STATE | with))
			die("modify");
	}
}

#endif
