/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes down what librdmacm gives the kernel for the services of InfiniBand
 * fabrics, and what it makes of the answers. write(2) is this file's: the kernel
 * is asked for nothing that takes a fabric. In the frames the number of the ID
 * and the address of the answer are zero. Each line is
 *
 *	resolve SERVICE => FRAME
 *	query RECORDS => FRAME ... ; EVENT ANSWER ...
 *	event STATUS ARG => FRAME
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <rdma/rdma_cma.h>

/* The commands and the option of rdma_user_cm.h, which cannot be included beside
 * rdma_cma.h. */
enum { CREATE_ID = 0, GET_EVENT = 12, QUERY = 19, RESOLVE_IB_SERVICE = 23, WRITE_CM_EVENT = 24 };
enum { QUERY_ADDR = 0, QUERY_IB_SERVICE = 3 };

struct header {
	uint32_t cmd;
	uint16_t in, out;
};

enum { RECORD_LEN = 176 };

static unsigned long long uid;
static uint32_t records; /* that the next query finds */
static int quiet;

/* show prints a frame, without the n bytes at an offset. */
static void show(const void *frame, size_t len, size_t off, size_t n)
{
	const unsigned char *b = frame;
	size_t i;

	if (quiet)
		return;
	printf(" ");
	for (i = 0; i < len; i++)
		printf("%02x", i >= off && i < off + n ? 0 : b[i]);
}

/* fill answers a query with records. */
static void fill(unsigned char *answer, size_t room)
{
	uint32_t i;

	memcpy(answer, &records, sizeof(records));
	for (i = 0; i < records && 8 + (i + 1) * RECORD_LEN <= room; i++) {
		unsigned char *r = answer + 8 + i * RECORD_LEN;

		r[7] = 5 + i;  /* the service's ID */
		r[8] = 0xfe;   /* the port's GID */
		r[9] = 0x80;
		r[23] = 2 + i;
		r[24] = 0x80;  /* the partition */
		r[25] = i;
	}
}

ssize_t write(int fd, const void *buf, size_t n)
{
	const struct header *h = buf;
	unsigned char *answer;
	uint32_t option;

	if (n < sizeof(*h) || n != sizeof(*h) + h->in)
		return syscall(SYS_write, fd, buf, n);
	if (n >= 16)
		memcpy(&answer, (const char *)buf + 8, sizeof(answer));
	switch (h->cmd) {
	case CREATE_ID:
		memcpy(&uid, (const char *)buf + 8, sizeof(uid));
		break;
	case RESOLVE_IB_SERVICE:
	case WRITE_CM_EVENT:
		show(buf, n, 8, 4);
		return n;
	case GET_EVENT:
		memset(answer, 0, h->out);
		memcpy(answer, &uid, sizeof(uid));
		option = RDMA_CM_EVENT_ADDRINFO_RESOLVED;
		memcpy(answer + 12, &option, sizeof(option));
		return n;
	case QUERY:
		memset(answer, 0, h->out);
		memcpy(&option, (const char *)buf + 20, sizeof(option));
		if (option == QUERY_IB_SERVICE) {
			show(buf, n, 8, 12);
			fill(answer, h->out);
			return n;
		}
		if (option == QUERY_ADDR)
			return n;
	}
	return syscall(SYS_write, fd, buf, n);
}

static struct rdma_event_channel *ch;

static struct rdma_cm_id *new_id(void)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(ch, &id, NULL, RDMA_PS_IB)) {
		perror("rdma_create_id");
		_exit(1);
	}
	return id;
}

static void resolve(const char *service)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_SA };
	struct rdma_cm_id *id = new_id();

	printf("resolve %s =>", service);
	if (rdma_resolve_addrinfo(id, NULL, service, &hints))
		printf(" errno %d", errno);
	printf("\n");
	rdma_destroy_id(id);
}

static void query(uint32_t n)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_SA }, *res, *r;
	struct rdma_cm_id *id = new_id();
	struct rdma_cm_event *ev;

	printf("query %u =>", n);
	records = n;
	quiet = 1;
	if (rdma_resolve_addrinfo(id, NULL, "storage", &hints))
		_exit(1);
	quiet = 0;
	if (rdma_get_cm_event(ch, &ev))
		_exit(1);
	printf(" ; event=%d status=%d", ev->event, ev->status);
	rdma_ack_cm_event(ev);
	if (rdma_query_addrinfo(id, &res)) {
		printf(" errno=%d\n", errno);
		rdma_destroy_id(id);
		return;
	}
	for (r = res; r; r = r->ai_next) {
		printf(" flags=%d family=%d ps=%d dst=", r->ai_flags, r->ai_family, r->ai_port_space);
		const unsigned char *b = (const void *)r->ai_dst_addr;
		for (socklen_t i = 0; i < r->ai_dst_len; i++)
			printf("%02x", b[i]);
	}
	printf("\n");
	rdma_freeaddrinfo(res);
	rdma_destroy_id(id);
}

static void event(int status, uint64_t arg)
{
	struct rdma_cm_id *id = new_id();

	printf("event %d %llu =>", status, (unsigned long long)arg);
	if (rdma_write_cm_event(id, RDMA_CM_EVENT_USER, status, arg))
		printf(" errno %d", errno);
	printf("\n");
	rdma_destroy_id(id);
}

int main(void)
{
	static const char *const services[] = {
		"0x1061d2f", "0X1061D2F", "17074479", "0100", "0", "18446744073709551615",
		"18446744073709551616", "+17", " 17", "-1", "17 ", "1_000", "0b11", "0o17", "0x", "08", "",
		"storage", "4711 storage", "storage.example",
		"a name of 63 bytes, which is as long as a name of a service may",
		"a name of 64 bytes, which is a byte more than fits into a record",
	};

	ch = rdma_create_event_channel();
	if (!ch) {
		perror("rdma_create_event_channel");
		return 1;
	}
	for (size_t i = 0; i < sizeof(services) / sizeof(*services); i++)
		resolve(services[i]);
	query(0);
	query(1);
	query(6);
	query(7);
	event(0, 0);
	event(-5, 0x1122334455667788);
	return 0;
}
