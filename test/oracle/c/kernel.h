/* SPDX-License-Identifier: Apache-2.0 */

/* The interfaces between the parts of the fake kernel. */
#ifndef KERNEL_H
#define KERNEL_H

#include <stdbool.h>

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "fakeuv.h"

extern struct fake_state fakeuv;

/* One command: the attributes of an ioctl, and which of them were answered. */
struct call {
	struct ib_uverbs_ioctl_hdr *hdr;
	uint8_t answered[64]; /* by index: 0 no, 1 bytes, 2 a new handle */
};

/* get copies an input of at most n bytes. Missing bytes are zeros. */
void get(struct call *c, int id, void *dst, size_t n);
/* put fills an output up to its size. */
void put(struct call *c, int id, const void *src, size_t n);
/* put_handle answers with the handle or file of a new object. */
void put_handle(struct call *c, int id, uint64_t v);
uint32_t new_handle(void);

/* The log functions record a command with its response, a command by write(2), or a mapping. */
void log_call(struct call *c, int rc);
void log_write(uint32_t num, int rc, const void *buf, size_t n);
void log_map(const struct fake_map *m);

/* give_memory allocates zeroed memory at a fixed address, and returns the offset of
 * the device for mapping it. */
void *give_memory(size_t len, uint64_t *offset);
/* give_readable is give_memory for memory that the provider also reads. */
void *give_readable(size_t len, uint64_t *offset);

/* A command of ib_user_verbs.h. */
struct write_cmd {
	uint32_t num;
	const void *req;
	void *resp, *drv_out;
	const void *drv_in;
	size_t req_len, resp_len, drv_in_len, drv_out_len;
};
void answer(void *dst, size_t room, const void *src, size_t n);

/* run_ioctl and run_write return an errno. */
int run_ioctl(struct call *c);
int run_write(struct write_cmd *w);

/* A driver: its numbers, and its part of the commands that differ. It may change the QP's
 * cap, which is the response. The file kernel_NAME.c of a driver defines fakeuv_NAME. */
struct driver_ops {
	uint32_t first_qpn;
	size_t mapped_head; /* bytes at the start of each mapping that the kernel has written */
	bool any_device;    /* the provider finds its devices by netlink only */
	void (*get_context)(struct call *c);
	void (*query_device)(struct write_cmd *w);
	void (*alloc_pd)(struct write_cmd *w);
	void (*reg_mr)(struct write_cmd *w, uint32_t key);
	void (*create_ah)(struct write_cmd *w);
	void (*create_cq)(struct call *c, struct fake_cq *q);
	void (*resize_cq)(struct write_cmd *w, struct fake_cq *q, uint32_t cqe);
	void (*create_qp)(struct call *c, struct fake_qp *q, struct ib_uverbs_qp_cap *cap, uint32_t type);
	void (*modify_qp)(struct write_cmd *w);
	void (*create_srq)(struct call *c, struct fake_srq *q, uint32_t *wr, uint32_t *sge);
	int (*own_object)(struct call *c); /* EPROTONOSUPPORT without such a command */
	void *(*own_mmap)(uint64_t offset, size_t len);
};
extern const struct driver_ops *ops;

#endif
