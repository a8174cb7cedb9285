/* SPDX-License-Identifier: Apache-2.0 */

/* Preloaded, this puts a fake /dev/infiniband/uverbs0 before libibverbs. Only the
 * control path is intercepted, the data path of the provider runs as it is.
 *
 *   FAKEUV_DRIVER   name of the driver, such as mlx5
 *   FAKEUV_UAR      dyn or legacy (mlx5)
 *   FAKEUV_BFREG    shared: legacy QPs share registers (mlx5)
 *   FAKEUV_BF       0: the device has no BlueFlame (mlx5)
 *   FAKEUV_INLINE   none or l2: the part of a raw packet that the device requires inline (mlx5)
 *   FAKEUV_SDB      entry or shared: the kind of doorbells that old kernels assign (erdma)
 *   SYSFS_PATH      libibverbs' own: a directory with the files of the device
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel.h"

#define DEVICE_NODE "/dev/infiniband/uverbs0"

struct fake_state fakeuv;
const struct driver_ops *ops;
static int device_fd = -1;

/* A provider that a program is linked with may register before this constructor runs. */
__attribute__((constructor)) static void init(void)
{
	char symbol[64];

	if (ops)
		return;
	fakeuv.driver = getenv("FAKEUV_DRIVER");
	snprintf(symbol, sizeof(symbol), "fakeuv_%s", fakeuv.driver ? fakeuv.driver : "");
	ops = dlsym(RTLD_DEFAULT, symbol);
	if (!ops) {
		fprintf(stderr, "libfakeuv.so: no driver %s\n", symbol);
		_exit(2);
	}
}

/* ---- attributes ---- */

static int find(struct call *c, int id)
{
	for (int i = 0; i < c->hdr->num_attrs && i < (int)sizeof(c->answered); i++)
		if (c->hdr->attrs[i].attr_id == id)
			return i;
	return -1;
}

static const void *attr_bytes(struct call *c, int id, size_t *len)
{
	int i = find(c, id);
	struct ib_uverbs_attr *a;

	*len = 0;
	if (i < 0)
		return NULL;
	a = &c->hdr->attrs[i];
	*len = a->len;
	return a->len <= sizeof(a->data) ? (void *)&a->data : (void *)(uintptr_t)a->data;
}

void get(struct call *c, int id, void *dst, size_t n)
{
	size_t len;
	const void *p = attr_bytes(c, id, &len);

	answer(dst, n, p ? p : "", len);
}

void put(struct call *c, int id, const void *src, size_t n)
{
	int i = find(c, id);

	if (i < 0)
		return;
	answer((void *)(uintptr_t)c->hdr->attrs[i].data, c->hdr->attrs[i].len, src, n);
	c->hdr->attrs[i].flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	c->answered[i] = 1;
}

void put_handle(struct call *c, int id, uint64_t v)
{
	int i = find(c, id);

	if (i < 0)
		return;
	c->hdr->attrs[i].data = v;
	c->answered[i] = 2;
}

static void *attr_out(struct call *c, int id, size_t *len)
{
	int i = find(c, id);

	*len = 0;
	if (i < 0)
		return NULL;
	c->answered[i] = 1;
	c->hdr->attrs[i].flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	*len = c->hdr->attrs[i].len;
	return memset((void *)(uintptr_t)c->hdr->attrs[i].data, 0, *len);
}

/* A command of ib_user_verbs.h inside an ioctl. */
static int invoke_write(struct call *c)
{
	struct write_cmd w = {};
	uint64_t num;

	if (c->hdr->num_attrs == 1)
		return ENOSPC; /* libibverbs checks whether the command exists */
	get(c, UVERBS_ATTR_WRITE_CMD, &num, sizeof(num));
	w.num = num;
	w.req = attr_bytes(c, UVERBS_ATTR_CORE_IN, &w.req_len);
	w.drv_in = attr_bytes(c, UVERBS_ATTR_UHW_IN, &w.drv_in_len);
	w.resp = attr_out(c, UVERBS_ATTR_CORE_OUT, &w.resp_len);
	w.drv_out = attr_out(c, UVERBS_ATTR_UHW_OUT, &w.drv_out_len);
	return run_write(&w);
}

/* ---- memory of the device ---- */

static struct fake_map given[4 * MAX_OBJECTS];
static int ngiven;

void *give_memory(size_t len, uint64_t *offset)
{
	static uintptr_t at = 0x7e0000000000ull;
	static uint64_t next = 0x100000000ull;
	void *p = mmap((void *)at, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	at += (len + 0xfffff) & ~0xfffffull;
	given[ngiven++] = (struct fake_map){ .offset = next, .addr = p, .len = len };
	*offset = next;
	next += 0x1000000;
	return p;
}

void *give_readable(size_t len, uint64_t *offset)
{
	void *p = give_memory(len, offset);

	given[ngiven - 1].readable = 1;
	return p;
}

static void *map_device(uint64_t offset, size_t len)
{
	struct fake_map m = { .offset = offset, .len = len };

	for (int i = 0; i < ngiven; i++)
		if (given[i].offset == offset)
			m.addr = given[i].addr;
	if (!m.addr && ops->own_mmap)
		m.addr = ops->own_mmap(offset, len);
	if (!m.addr) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	for (int i = 0; i < ngiven; i++)
		if (given[i].addr == m.addr)
			m.readable = given[i].readable;
	fakeuv.map[fakeuv.nmap++] = m;
	log_map(&m);
	return m.addr;
}

/* ---- replaced functions of libc ---- */

int ioctl(int fd, unsigned long req, ...)
{
	struct call c = {};
	va_list ap;
	void *arg;
	int rc;

	va_start(ap, req);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (fd != device_fd || fd < 0 || req != RDMA_VERBS_IOCTL)
		return syscall(SYS_ioctl, fd, req, arg);
	c.hdr = arg;
	if (c.hdr->object_id == UVERBS_OBJECT_DEVICE && c.hdr->method_id == UVERBS_METHOD_INVOKE_WRITE)
		rc = invoke_write(&c);
	else
		rc = run_ioctl(&c);
	log_call(&c, rc);
	if (!rc)
		return 0;
	errno = rc;
	return -1;
}

ssize_t write(int fd, const void *buf, size_t n)
{
	const struct ib_uverbs_cmd_hdr *hdr = buf;
	struct write_cmd w = {};
	uint64_t resp;
	int rc;

	if (fd != device_fd || fd < 0)
		return syscall(SYS_write, fd, buf, n);
	w.num = hdr->command;
	w.req = hdr + 1;
	w.req_len = n - sizeof(*hdr);
	memcpy(&resp, w.req, sizeof(resp)); /* the response's address is the first field, if there is one */
	if (hdr->out_words) {
		w.resp = (void *)(uintptr_t)resp;
		w.resp_len = hdr->out_words * 4;
	}
	rc = run_write(&w);
	log_write(hdr->command, rc, buf, n);
	if (!rc)
		return n;
	errno = rc;
	return -1;
}

void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	if (fd == device_fd && fd >= 0)
		return map_device(off, len);
	return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, off);
}

void *mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	return mmap(addr, len, prot, flags, fd, off);
}

static bool is_device(const char *path)
{
	return path && !strcmp(path, DEVICE_NODE);
}

static int open_file(const char *path, int flags, mode_t mode)
{
	if (!is_device(path))
		return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
	/* A character device, 1:5, as sysfs says: fstat needs no help. */
	device_fd = syscall(SYS_openat, AT_FDCWD, "/dev/zero", flags, 0);
	return device_fd;
}

static mode_t mode_arg(int flags, va_list ap)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, unsigned int) : 0;
}

int open(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = mode_arg(flags, ap);
	va_end(ap);
	return open_file(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = mode_arg(flags, ap);
	va_end(ap);
	return open_file(path, flags, mode);
}

int stat(const char *path, struct stat *st)
{
	return syscall(SYS_newfstatat, AT_FDCWD, is_device(path) ? "/dev/zero" : path, st, 0);
}

int stat64(const char *path, struct stat64 *st)
{
	return stat(path, (struct stat *)st);
}

int close(int fd)
{
	if (fd == device_fd)
		device_fd = -1;
	return syscall(SYS_close, fd);
}

/* Without NETLINK_RDMA libibverbs searches for devices in sysfs. */
int socket(int domain, int type, int protocol)
{
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	return syscall(SYS_socket, domain, type, protocol);
}

/* Some providers find their devices by the driver's id in netlink only. This is the start of
 * libibverbs' private struct verbs_device_ops, as far as match_device. */
struct device_ops {
	const char *name;
	uint32_t min_abi, max_abi;
	const void *match_table, *static_providers;
	bool (*match_device)(void *);
	void *rest[4];
};

static bool match_any(void *dev)
{
	(void)dev;
	return true;
}

/* The private interface has a version, PABI, in its names. */
#define JOIN(a, b) a##b
#define NAME(a, b) JOIN(a, b)
#define QUOTE(a) #a
#define TEXT(a) QUOTE(a)
#define REGISTER NAME(verbs_register_driver_, PABI)

void REGISTER(const struct device_ops *d)
{
	static struct device_ops own;
	void (*next)(const void *) = dlvsym(RTLD_NEXT, TEXT(REGISTER), "IBVERBS_PRIVATE_" TEXT(PABI));

	init();
	if (ops->any_device && !strcmp(d->name, fakeuv.driver)) {
		own = *d;
		own.match_device = match_any;
		d = &own;
	}
	next(d);
}
