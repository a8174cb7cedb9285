/* SPDX-License-Identifier: Apache-2.0 */

/* The interface of the fake kernel (libfakeuv.so, preloaded) for the dumper: the
 * queues as the provider described them, and a log of all commands. The dumper
 * finds it by dlsym("fakeuv"). */
#ifndef FAKEUV_H
#define FAKEUV_H

#include <stddef.h>
#include <stdint.h>

enum { MAX_OBJECTS = 64 };

/* The parameters of a CQ from the provider, or its memory from the kernel. */
struct fake_cq {
	uint32_t handle, cqn, cqe, cqe_size;
	uint64_t buf, db;
};

struct fake_qp {
	uint32_t handle, qpn, uidx, bfreg;
	uint64_t buf, sq_buf, db;
	uint32_t sq_wqe_count, rq_wqe_count, rq_wqe_shift;
	uint64_t sq_map, rq_map; /* rxe, siw: memory of the kernel */
	uint32_t num_sqe, num_rqe;
};

struct fake_srq {
	uint32_t handle, srqn, uidx, wr;
	uint64_t buf, db;
	uint64_t map; /* rxe, siw */
	uint32_t num_rqe;
};

/* A piece of the device that the provider has mapped. */
struct fake_map {
	uint64_t offset;
	uint8_t *addr;
	size_t len;
	int readable; /* the provider also reads it, so that it is not poisoned */
};

struct fake_state {
	const char *driver; /* name */
	struct fake_cq cq[MAX_OBJECTS];
	struct fake_qp qp[MAX_OBJECTS];
	struct fake_srq srq[MAX_OBJECTS];
	struct fake_map map[4 * MAX_OBJECTS];
	int ncq, nqp, nsrq, nmap, nmr, nmw;
	int doorbells; /* POST_SEND commands */
	int arms;      /* REQ_NOTIFY_CQ commands, and whether the last was for solicited ones */
	int arm_solicited;
	/* Called when a CQ gets another buffer. The device marks in the old buffer
	 * where its completions end. */
	void (*on_resize)(uint32_t cq_handle);
	/* Commands since the dumper took the log, as JSON objects, each with a
	 * comma behind it. */
	char *log;
	size_t log_len, log_cap;
};

#endif
