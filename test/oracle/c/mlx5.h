/* SPDX-License-Identifier: Apache-2.0 */

/* Records how libmlx5 uses the memory that it shares with the device. */
#ifndef MLX5_H
#define MLX5_H

#include <infiniband/mlx5dv.h>

#include "rig.h"

/* wire finds the queues of a new QP. */
void wire(struct qp *q);
struct qp *mlx5_qp(enum ibv_qp_type type, struct cq *scq, struct cq *rcq, struct srq *srq, struct ibv_qp_cap cap, bool sig_all);

/* Parameters of special QPs. Zero members are absent. */
struct qp_extra {
	struct ibv_xrcd *xrcd;
	uint32_t create_flags, tso_header, dv_flags;
	enum mlx5dv_dc_type dc;
	uint64_t dct_key;
	uint64_t send_ops, dv_send_ops;
};
struct qp *mlx5_qp_ex(enum ibv_qp_type type, struct cq *scq, struct cq *rcq, struct srq *srq, struct ibv_qp_cap cap, const struct qp_extra *x);
struct srq *mlx5_srq(int wr, int sge);
void wire_srq(struct srq *s, uint32_t sge);
struct cq *mlx5_cq_ex(int cqe, int wc_flags, int cqe_size, int compress);
void resize(struct cq *c, int cqe);

/* send posts a list. name is the record's, and ah the id of the requests' address
 * handle. It returns the errno. */
int send(const char *name, struct qp *q, struct ibv_send_wr *list, const char *ah);
/* watch is called around code that writes to a queue, a doorbell record and the UAR
 * pages. see_stores prints these stores. */
void watch(struct qp *q);
void see_stores(struct qp *q);
int recv(const char *name, struct qp *q, struct ibv_recv_wr *list);
int srq_recv(const char *name, struct srq *s, struct ibv_recv_wr *list);
void srq_reposted(struct srq *s);
void arm(struct cq *c, int solicited);

/* A completion that the device is about to add. It has 128 bytes. A CQ with 64-byte
 * entries gets the last 64. */
struct cqe {
	union {
		uint8_t raw[128];
		struct {
			uint8_t data[64];
			struct mlx5_cqe64 c;
		};
	};
	const char *of; /* the QP or SRQ whose user index it carries */
};
/* requester and responder fill in a completion without an error. */
struct cqe requester(struct qp *q, uint32_t wqe, int mlx_opcode, uint32_t bytes);
struct cqe responder(struct qp *q, int opcode, uint32_t slot, uint32_t bytes);
struct cqe failed(struct qp *q, int opcode, uint32_t wqe, int mlx_opcode, uint8_t syndrome, uint8_t vendor);
#define SCATTER_32 0x4
#define SCATTER_64 0x8
#define SOLICITED 0x2

/* poll adds the completions to the CQ, polls up to max of them, and records them. mem,
 * if not 0, is the number of bytes at DATA + at that may have been written. */
void poll(const char *name, struct cq *c, struct cqe *e, int n, int max, uint32_t at, uint32_t mem);
/* add adds a completion to the CQ, and prints it as a part of a record. */
void add(struct cq *c, struct cqe *e);
/* wqe_slots returns the number of slots in the WQE at a position, from its own word.
 * last_wqe returns the start of the last posted WQE, searching from a position on. */
uint32_t wqe_slots(struct qp *q, uint32_t at);
uint32_t last_wqe(struct qp *q, uint32_t from);
/* done marks all requests in the SQ of q as completed. */
void done(struct qp *q);

/* many posts, completes and polls count times, and records only that. */
void many(const char *name, struct qp *q, uint64_t count, int list, struct ibv_send_wr *wr, int mlx_opcode);
/* many_receives is many for receives of an SRQ that one queue pair takes. */
void many_receives(const char *name, struct srq *s, struct qp *q, uint64_t count, int list, struct ibv_recv_wr *wr);

#endif
