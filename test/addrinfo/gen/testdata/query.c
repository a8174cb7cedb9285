/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Asks rdma_getaddrinfo about each line of its input,
 *
 *	node|service|hints
 *
 * and prints the line with the answer behind " => ". "-" is NULL. Hints are
 * numbers of struct rdma_addrinfo and addresses in hex:
 *
 *	flags=1 family=27 qp=2 ps=262 src=0200... dst=0a00...
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/rdma_cma.h>

static unsigned char src[128], dst[128];

static unsigned unhex(const char *s, unsigned char *out)
{
	unsigned n = 0, byte;

	while (n < 128 && sscanf(s + 2 * n, "%2x", &byte) == 1)
		out[n++] = byte;
	return n;
}

static void parse(char *s, struct rdma_addrinfo *h)
{
	for (s = strtok(s, " "); s; s = strtok(NULL, " ")) {
		char *v = strchr(s, '=') + 1;

		if (!strncmp(s, "flags=", 6))
			h->ai_flags = strtol(v, NULL, 0);
		else if (!strncmp(s, "family=", 7))
			h->ai_family = strtol(v, NULL, 0);
		else if (!strncmp(s, "qp=", 3))
			h->ai_qp_type = strtol(v, NULL, 0);
		else if (!strncmp(s, "ps=", 3))
			h->ai_port_space = strtol(v, NULL, 0);
		else if (!strncmp(s, "src=", 4)) {
			h->ai_src_len = unhex(v, src);
			h->ai_src_addr = (struct sockaddr *) src;
		} else if (!strncmp(s, "dst=", 4)) {
			h->ai_dst_len = unhex(v, dst);
			h->ai_dst_addr = (struct sockaddr *) dst;
		} else
			exit(2);
	}
}

static void hex(const char *name, const void *p, size_t n)
{
	const unsigned char *b = p;

	printf(" %s=", name);
	if (!n)
		printf("-");
	while (n--)
		printf("%02x", *b++);
}

int main(void)
{
	char line[1024];

	while (fgets(line, sizeof(line), stdin)) {
		struct rdma_addrinfo hints, *res = NULL, *r;
		char *node, *service, *hint;
		int ret;

		line[strcspn(line, "\n")] = 0;
		if (!line[0] || line[0] == '#')
			continue;
		printf("%s => ", line);
		node = line;
		service = strchr(node, '|');
		*service++ = 0;
		hint = strchr(service, '|');
		*hint++ = 0;
		memset(&hints, 0, sizeof(hints));
		if (strcmp(hint, "-"))
			parse(hint, &hints);
		else
			hint = NULL;
		errno = 0;
		ret = rdma_getaddrinfo(strcmp(node, "-") ? node : NULL,
				       strcmp(service, "-") ? service : NULL,
				       hint ? &hints : NULL, &res);
		if (ret == -1 && errno)
			printf("errno %d", errno);
		else if (ret)
			printf("eai %d", ret);
		for (r = ret ? NULL : res; r; r = r->ai_next) {
			printf("%sflags=%d family=%d qp=%d ps=%d", r == res ? "" : " ; ",
			       r->ai_flags, r->ai_family, r->ai_qp_type, r->ai_port_space);
			hex("src", r->ai_src_addr, r->ai_src_len);
			hex("dst", r->ai_dst_addr, r->ai_dst_len);
			printf(" srcname=%s dstname=%s", r->ai_src_canonname ? r->ai_src_canonname : "-",
			       r->ai_dst_canonname ? r->ai_dst_canonname : "-");
			printf(" route=%zu connect=%zu", r->ai_route_len, r->ai_connect_len);
		}
		printf("\n");
		if (!ret)
			rdma_freeaddrinfo(res);
	}
	return 0;
}
