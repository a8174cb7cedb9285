/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Registers memory with ibv_reg_mr, for the bench. No program of rdma-core or
 * perftest measures the time of a registration.
 *
 *	register DEVICE BYTES ROUNDS huge|small
 *
 * prints the microseconds of each registration and deregistration.
 */
#define _GNU_SOURCE
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void need(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	need(argc == 5 && list, "arguments, devices");
	for (; *list && !ctx; list++)
		if (!strcmp(ibv_get_device_name(*list), argv[1]))
			ctx = ibv_open_device(*list);
	need(!!ctx, argv[1]);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	size_t size = strtoull(argv[2], NULL, 0);
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | (strcmp(argv[4], "huge") ? 0 : MAP_HUGETLB);
	char *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);

	need(pd && mem != MAP_FAILED, "memory");
	memset(mem, 1, size);
	for (int i = atoi(argv[3]); i > 0; i--) {
		double start = now();
		struct ibv_mr *mr = ibv_reg_mr(pd, mem, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		double there = now();

		need(!!mr, "ibv_reg_mr");
		need(!ibv_dereg_mr(mr), "ibv_dereg_mr");
		printf("%.1f %.1f\n", there - start, now() - there);
	}
	return 0;
}
