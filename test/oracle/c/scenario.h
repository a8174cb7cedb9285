/* SPDX-License-Identifier: Apache-2.0 */

/* The scenarios of libmlx5. */
#ifndef SCENARIO_H
#define SCENARIO_H

#include "rig.h"

void rc(void);
void uc(void);
void trace(void);
void sizes(void);
void wrap(void);
void counters(void);
void random_lists(void);
void datagrams(void);
void shared(void);
void srq_count(void);
void xrc(void);
void windows(void);
void raw(void);
void dc(void);
void cqs(void);
void resets(void);
void faults(void);
void ece(void);

/* Pieces that scenarios share. */
extern const int mlx_opcode[];
int post_one(const char *name, struct qp *q, int opcode, int flags, struct ibv_sge *s, int n);

#endif
