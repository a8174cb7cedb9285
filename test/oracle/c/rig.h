/* SPDX-License-Identifier: Apache-2.0 */

/* The objects of a session, and the functions that record the library's operations on
 * them. Every function that creates or uses an object prints one record. */
#ifndef RIG_H
#define RIG_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "fakeuv.h"

/* Registered memory, at a fixed place so that its addresses repeat. Byte i is
 * (i*7 + i/256) | 1. */
#define DATA ((uint8_t *)0x600000000000ull)
#define DATA_LEN (1u << 20)

/* Fills memory before the library writes to it, so that untouched bytes are visible. */
#define POISON 0xcc
#define UAR_POISON 0xee

#define MAX_LIST 64

extern struct fake_state *fake;
extern struct ibv_context *ctx;
extern struct ibv_pd *pd;
extern struct ibv_mr *mr;

struct cq {
	char id[8];
	struct ibv_cq *ibv;
	struct ibv_cq_ex *ex; /* NULL if polled by ibv_poll_cq */
	int wc_flags;         /* of ex */
	struct fake_cq *k;
	uint32_t pi; /* next completion that the device adds, not wrapped */
};

/* A queue in the kernel's memory (rxe, siw). */
struct rxe_queue_buf;
struct ring {
	struct rxe_queue_buf *head; /* NULL for siw */
	uint8_t *slot;
	uint32_t size, n;
	uint32_t posted, taken; /* slots, not wrapped */
};

struct srq {
	char id[8];
	struct ibv_srq *ibv;
	struct fake_srq *k;
	uint32_t got_sge;
	uint32_t stride, slots;
	bool posted[256]; /* and not completed */
	uint32_t pos;     /* next slot */
	struct ring ring; /* rxe, siw */
};

struct qp {
	char id[8];
	struct ibv_qp *ibv;
	struct fake_qp *k;
	struct cq *scq, *rcq;
	struct srq *srq;
	uint8_t *sq, *rq;
	uint32_t sq_slots, sq_slot;   /* in units of 64 bytes for mlx5 */
	uint32_t rq_slots, rq_slot;
	uint32_t sq_pos, sq_done;     /* slots posted and completed, not wrapped */
	uint32_t rq_pos, rq_done;
	struct ring sq_ring, rq_ring; /* rxe, siw */
};

/* The scenarios of a dumper, ended by one without a name. Each runs in its own process,
 * because the environment configures the library and the fake kernel. */
struct scenario {
	const char *name;
	void (*run)(void);
};
extern const struct scenario scenarios[];
extern int nrandom; /* number of random lists */

/* A session. */
void open_device(const char *name);
void reset_data(void);
const char *named(char *id, const char *kind, int *count);

struct cq *make_cq(int cqe);
struct cq *make_cq_on(struct ibv_comp_channel *channel, int cqe);
struct qp *make_qp(enum ibv_qp_type type, struct cq *scq, struct cq *rcq, struct srq *srq, struct ibv_qp_cap cap, bool sig_all);
struct srq *make_srq(int wr, int sge);
struct ibv_ah *make_ah(const char *id, struct ibv_ah_attr *attr);
struct ibv_mw *make_mw(const char *id, enum ibv_mw_type type);
void move_qp(struct qp *q, enum ibv_qp_state state);
/* ready moves a new QP to RTS. */
void ready(struct qp *q);

/* print_wr and print_sges print a posted request. */
void print_send_wr(const struct ibv_send_wr *w, const char *ah);
void print_recv_wrs(const struct ibv_recv_wr *w);
void print_cap(const char *key, const struct ibv_qp_cap *c);
void print_wc(const struct ibv_wc *wc);

/* bad_index returns the index of the bad request, or -1. */
int bad_send(const struct ibv_send_wr *list, const struct ibv_send_wr *bad);
int bad_recv(const struct ibv_recv_wr *list, const struct ibv_recv_wr *bad);

/* poison_pages fills the pages of doorbell registers. print_pages prints the writes to them,
 * from the first to the last 8 bytes of each page that are not poison. */
void poison_pages(void);
void print_pages(void);

/* The trace has every store to the pages of registers and to the doorbell record, in order.
 * Stores to the record have a constant width. */
extern bool tracing;
void trace_begin(uint64_t record, uint32_t width);
void trace_end(void);
void trace_print(void);

/* Pieces that scenarios share. */
struct ibv_send_wr work(int opcode, int flags, struct ibv_sge *s, int n);
struct ibv_sge piece(uint32_t at, uint32_t len);

/* rnd gives reproducible numbers below n. */
void start_random(const char *seed);
uint32_t rnd(uint32_t n);
uint64_t rnd64(void);

#define DIE(...) die(__FILE__, __LINE__, __VA_ARGS__)
void die(const char *file, int line, const char *fmt, ...) __attribute__((noreturn, format(printf, 3, 4)));

#endif
