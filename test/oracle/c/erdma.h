/* SPDX-License-Identifier: Apache-2.0 */

/* Records how liberdma uses the memory that it shares with the device. */
#ifndef ERDMA_H
#define ERDMA_H

#include "rig.h"

enum { BLOCK = 32 }; /* bytes of a basic block of a send queue, and of an entry of the other queues */

/* The operations of the device. */
enum {
	OP_WRITE = 0,
	OP_READ = 1,
	OP_SEND = 2,
	OP_SEND_WITH_IMM = 3,
	OP_RECEIVE = 4,
	OP_RECV_IMM = 5,
	OP_RECV_INV = 6,
	OP_WRITE_WITH_IMM = 9,
	OP_RSP_SEND_IMM = 12,
	OP_SEND_WITH_INV = 13,
	OP_COMPARE_SWAP = 17,
	OP_FETCH_ADD = 18,
};

struct qp *erdma_qp(struct cq *scq, struct cq *rcq, struct ibv_qp_cap cap, bool sig_all);

/* send and recv post a list and return the errno. */
int erdma_send(const char *name, struct qp *q, struct ibv_send_wr *list);
int erdma_recv(const char *name, struct qp *q, struct ibv_recv_wr *list);

/* A completion that the device is about to add. */
struct entry {
	uint32_t qpn;
	uint8_t opcode, queue, syndrome; /* queue is 0 for sends and 1 for receives */
	uint16_t index;                  /* slot of the request, mod 2^16 */
	uint32_t imm, size;
};
/* sent and received return a completion of the oldest request without one. sent passes over the requests that are not
 * signaled. They return false without a request. */
bool sent(struct qp *q, struct entry *e);
bool received(struct qp *q, int opcode, uint32_t size, struct entry *e);

/* poll adds completions to the CQ and polls up to max of them. */
void erdma_poll(const char *name, struct cq *c, const struct entry *e, int n, int max);
/* finish completes all requests. */
void finish(struct qp *q);
void erdma_arm(struct cq *c, int solicited);
/* event reads an event from the completion channel. */
void event(struct cq *c, struct ibv_comp_channel *channel);
/* many posts, completes and polls count times, and records only that. */
void many(const char *name, struct qp *q, uint64_t count, int list, struct ibv_send_wr *wr);

void operations(void);
void trace(void);
void sizes(void);
void wrap(void);
void counters(void);
void statuses(void);
void events(void);
void random_lists(void);

#endif
