/* SPDX-License-Identifier: Apache-2.0 */

/* Records how libbnxt_re uses the memory that it shares with the device. */
#ifndef BNXT_RE_H
#define BNXT_RE_H

#include "rig.h"

enum { SLOT = 16, CQE = 32, STATIC_SLOTS = 8, MAX_INLINE = 96 };

/* The types of completions, and flags of receives. */
enum { TYPE_SEND = 0, TYPE_RECV_RC = 1, TYPE_RECV_UD = 2, TYPE_END = 14, TYPE_CUTOFF = 15 };
enum { RECV_IMM = 2, RECV_INV = 4, RECV_WRITE = 8 };

/* A QP, with its requests that have not completed. */
struct bqp {
	struct qp q;
	bool rc, variable, msn, sig_all;
	uint32_t entries, depth;        /* requests and slots of the send queue */
	uint32_t entry, table;          /* bytes of an entry, and entries, of the search table */
	uint32_t index, slot, messages; /* next ones */
	uint32_t recvs, recv_size, recv_index;
	struct request {
		uint32_t index, slot, next, sge;
		bool signaled;
	} posted[4096];
	uint32_t first, last;           /* outstanding requests */
	uint32_t recv_done, recv_pos;   /* receives completed and posted */
};

/* The generation of the chip. */
bool chip(const char *feature);
uint32_t depth(uint32_t n);

struct cq *bnxt_cq(int cqe);
struct bqp *bnxt_qp(enum ibv_qp_type type, struct cq *scq, struct cq *rcq, struct srq *srq, struct ibv_qp_cap cap, bool sig_all);
void bnxt_modify(struct bqp *b, enum ibv_qp_state state, uint32_t psn);
void bnxt_ready(struct bqp *b);

int bnxt_send(const char *name, struct bqp *b, struct ibv_send_wr *list);
int bnxt_send_to(const char *name, struct bqp *b, struct ibv_send_wr *list, const char *ah);
int bnxt_recv(const char *name, struct bqp *b, struct ibv_recv_wr *list);
int bnxt_srq_recv(const char *name, struct srq *s, struct ibv_recv_wr *list);
struct srq *bnxt_srq(int wr, int sge);
void bnxt_limit(struct srq *s, int limit, uint32_t toggle);

/* A completion that the device is about to add. */
struct entry {
	const char *of; /* QP. NULL for a completion without one */
	uint8_t type, status, resize_toggle;
	uint16_t flags;
	uint32_t words[6]; /* without the handle of the QP */
	uint32_t index;
};
/* sent and received return a completion of the oldest request without one. sent passes over the requests that are not
 * signaled. They return false without a request. */
bool sent(struct bqp *b, uint8_t status, struct entry *e);
bool received(struct bqp *b, uint8_t status, uint16_t flags, uint32_t length, struct entry *e);
struct entry ended(struct bqp *b);

/* poll adds completions to the CQ and polls up to max of them. */
void bnxt_poll(const char *name, struct cq *c, const struct entry *e, int n, int max);
/* finish completes all requests. */
void finish(struct bqp *b);
void bnxt_arm(struct cq *c, int solicited, uint32_t toggle);
/* resize changes the size. Meanwhile the device adds entries, of which the last ends the old ring. */
void bnxt_resize(struct cq *c, int cqe, const struct entry *e, int n);
/* many posts, completes and polls count times, and records only that. */
void many(const char *name, struct bqp *b, uint64_t count, int list, struct ibv_send_wr *wr);

void operations(void);
void sizes(void);
void wrap(void);
void counters(void);
void statuses(void);
void datagrams(void);
void shared(void);
void flushes(void);
void resets(void);
void cqs(void);
void random_lists(void);

#endif
