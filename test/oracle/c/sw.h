/* SPDX-License-Identifier: Apache-2.0 */

/* Records how librxe and libsiw use the queues in the kernel's memory. */
#ifndef SW_H
#define SW_H

#include <string.h>

#include <rdma/rdma_user_rxe.h>
#include <rdma/siw-abi.h>

#include "out.h"
#include "rig.h"

static inline bool is_siw(void)
{
	return !strcmp(fake->driver, "siw");
}

struct ring sw_ring(uint64_t at, uint32_t siw_slot, uint32_t siw_slots);
struct qp *sw_qp(enum ibv_qp_type type, struct cq *scq, struct cq *rcq, struct srq *srq, struct ibv_qp_cap cap, bool sig_all);
struct srq *sw_srq(int wr, int sge);

/* sw_send and similar functions post a list. Then the device takes a number of slots. */
int sw_send(const char *name, struct qp *q, struct ibv_send_wr *list, const char *ah, uint32_t taking);
int sw_recv(const char *name, struct qp *q, struct ibv_recv_wr *list, uint32_t taking);
int sw_srq_recv(const char *name, struct srq *s, struct ibv_recv_wr *list, uint32_t taking);
void sw_poll(const char *name, struct cq *c, const void *entries, uint32_t size, int n, int max);
void sw_arm(struct cq *c, int solicited);

void fixed(void);
void datagrams(void);
void shared(void);
void windows(void);
void random_lists(void);

#endif
