/* SPDX-License-Identifier: Apache-2.0 */

/* The log of the provider's commands, for the records. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

/* The placeholder for an address of this process. */
#define ADDRESS 0xadd7e55000000000ull

static void log_text(const char *fmt, ...)
{
	va_list ap;

	if (fakeuv.log_cap - fakeuv.log_len < 256) {
		fakeuv.log_cap = 2 * fakeuv.log_cap + 65536;
		fakeuv.log = realloc(fakeuv.log, fakeuv.log_cap);
	}
	va_start(ap, fmt);
	fakeuv.log_len += vsnprintf(fakeuv.log + fakeuv.log_len, fakeuv.log_cap - fakeuv.log_len, fmt, ap);
	va_end(ap);
}

static void log_bytes(const void *p, size_t n)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < n; i++)
		log_text("%02x", b[i]);
}

/* is_own reports whether a number may be an address of this process. Such addresses
 * change from run to run, except the fixed addresses of the fake kernel and the data. */
static bool is_own(uint64_t v)
{
	return (v >= 0x550000000000ull && v < 0x570000000000ull) || (v >= 0x7e0000000000ull && v < 0x800000000000ull);
}

/* log_input is log_bytes with ADDRESS in the place of addresses. */
static void log_input(const void *p, size_t n)
{
	static const uint64_t address = ADDRESS;
	const uint8_t *b = p;

	for (; n >= sizeof(uint64_t); n -= sizeof(uint64_t), b += sizeof(uint64_t)) {
		uint64_t v;

		memcpy(&v, b, sizeof(v));
		log_bytes(is_own(v) ? (const void *)&address : b, sizeof(v));
	}
	log_bytes(b, n);
}

static void log_attrs(const char *key, struct call *c, int answered)
{
	const char *comma = "";

	log_text(",\"%s\":{", key);
	for (int i = 0; i < c->hdr->num_attrs; i++) {
		struct ib_uverbs_attr *a = &c->hdr->attrs[i];

		if (c->answered[i] != answered)
			continue;
		log_text("%s\"%u\":", comma, a->attr_id);
		comma = ",";
		if (answered == 2) {
			log_text("%llu", (unsigned long long)a->data);
			continue;
		}
		log_text("\"");
		if (answered == 1)
			log_bytes((void *)(uintptr_t)a->data, a->len);
		else if (a->len > sizeof(a->data))
			log_input((void *)(uintptr_t)a->data, a->len);
		else
			log_input(&a->data, a->len ? a->len : sizeof(a->data));
		log_text("\"");
	}
	log_text("}");
}

void log_call(struct call *c, int rc)
{
	log_text("{\"o\":%u,\"m\":%u", c->hdr->object_id, c->hdr->method_id);
	if (c->hdr->object_id == UVERBS_OBJECT_DEVICE && c->hdr->method_id == UVERBS_METHOD_INVOKE_WRITE) {
		uint64_t num;

		get(c, UVERBS_ATTR_WRITE_CMD, &num, sizeof(num));
		log_text(",\"w\":%llu", (unsigned long long)num);
	}
	log_text(",\"rc\":%d", rc);
	log_attrs("in", c, 0);
	log_attrs("out", c, 1);
	log_attrs("new", c, 2);
	log_text("},");
}

void log_write(uint32_t num, int rc, const void *buf, size_t n)
{
	log_text("{\"write\":%u,\"rc\":%d,\"bytes\":\"", num, rc);
	log_input(buf, n);
	log_text("\"},");
}

/* The start of memory that the provider reads is in the log. */
enum { READABLE_HEAD = 64 };

void log_map(const struct fake_map *m)
{
	size_t head = m->readable ? READABLE_HEAD : ops->mapped_head;

	log_text("{\"mmap\":%llu,\"len\":%zu", (unsigned long long)m->offset, m->len);
	if (head) {
		log_text(",\"bytes\":\"");
		log_bytes(m->addr, head);
		log_text("\"");
	}
	log_text("},");
}
