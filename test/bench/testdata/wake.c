/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures the time until a waiter on a completion channel has a completion, for the
 * bench. perftest's latencies include both ends.
 *
 *	wake peer OWN
 *
 * prints its port and serves one connection. It answers a request with the requested number
 * of messages, and sleeps before each. Each message carries the time of its post.
 *
 *	wake waiter OWN PEER PORT REQUESTS ANSWERS poll|wait
 *
 * sends REQUESTS requests for ANSWERS messages each, and prints the nanoseconds from the post
 * of each message until the waiter has its completion. waiter.go has the waiter in Go.
 */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RECEIVES = 64, GAP_NS = 1000000 };

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void need(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static struct sockaddr *address(const char *ip, int port)
{
	struct sockaddr_in *a = calloc(1, sizeof(*a));

	a->sin_family = AF_INET;
	a->sin_port = htons(port);
	need(inet_pton(AF_INET, ip, &a->sin_addr) == 1, ip);
	return (struct sockaddr *)a;
}

static struct rdma_cm_id *id;
static uint64_t *words; /* one for each receive */
static struct ibv_mr *mr;

static void receive(uint64_t i)
{
	need(!rdma_post_recv(id, (void *)(uintptr_t)i, words + i, sizeof(*words), mr), "rdma_post_recv");
}

static void make_qp(void)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 8, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = sizeof(*words) },
	};

	need(!rdma_create_qp(id, NULL, &attr), "rdma_create_qp");
	words = calloc(RECEIVES, sizeof(*words));
	mr = rdma_reg_msgs(id, words, RECEIVES * sizeof(*words));
	need(!!mr, "rdma_reg_msgs");
	for (int i = 0; i < RECEIVES; i++)
		receive(i);
}

/* take returns the next completion, and waits for it on the channel if there is one. */
static struct ibv_wc take(struct ibv_cq *cq, struct ibv_comp_channel *ch)
{
	struct ibv_wc wc;
	int n, armed = 0;

	while (!(n = ibv_poll_cq(cq, 1, &wc))) {
		if (!ch)
			continue;
		if (!armed) {
			need(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
		} else {
			void *context;

			need(!ibv_get_cq_event(ch, &cq, &context), "ibv_get_cq_event");
			ibv_ack_cq_events(cq, 1);
		}
		armed = !armed;
	}
	if (n == 1 && wc.status == IBV_WC_WR_FLUSH_ERR)
		exit(0); /* the other end has left */
	need(n == 1 && wc.status == IBV_WC_SUCCESS, "completion");
	return wc;
}

static void post(uint64_t word)
{
	need(!rdma_post_send(id, NULL, &word, sizeof(word), NULL, IBV_SEND_INLINE | IBV_SEND_SIGNALED), "rdma_post_send");
}

static void peer(const char *own)
{
	struct rdma_cm_id *listener;

	need(!rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
	need(!rdma_bind_addr(listener, address(own, 0)) && !rdma_listen(listener, 1), "rdma_listen");
	printf("%d\n", ntohs(rdma_get_src_port(listener)));
	fflush(stdout);
	need(!rdma_get_request(listener, &id), "rdma_get_request");
	make_qp();
	need(!rdma_accept(id, NULL), "rdma_accept");
	for (;;) { /* until it is killed */
		uint64_t i = take(id->recv_cq, NULL).wr_id, answers = words[i];
		struct timespec gap = { .tv_nsec = GAP_NS };

		for (receive(i); answers; answers--) {
			nanosleep(&gap, NULL);
			post(now());
			take(id->send_cq, NULL);
		}
	}
}

static void waiter(const char *own, const char *to, int port, uint64_t asks, uint64_t answers, int waits)
{
	uint64_t *took = calloc(asks * answers, sizeof(*took));

	need(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	need(!rdma_resolve_addr(id, address(own, 0), address(to, port), 5000), "rdma_resolve_addr");
	need(!rdma_resolve_route(id, 5000), "rdma_resolve_route");
	make_qp();
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	need(!rdma_connect(id, &param), "rdma_connect");
	for (uint64_t k = 0; k < asks * answers; k++) {
		if (k % answers == 0)
			post(answers);
		uint64_t i = take(id->recv_cq, waits ? id->recv_cq_channel : NULL).wr_id;

		took[k] = now() - words[i];
		receive(i);
		if (k % answers == 0)
			take(id->send_cq, NULL);
	}
	for (uint64_t k = 0; k < asks * answers; k++)
		printf("%llu\n", (unsigned long long)took[k]);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "peer"))
		peer(argv[2]);
	need(argc == 8, "arguments");
	waiter(argv[2], argv[3], atoi(argv[4]), strtoull(argv[5], NULL, 0), strtoull(argv[6], NULL, 0), !strcmp(argv[7], "wait"));
	return 0;
}
