/* SPDX-License-Identifier: Apache-2.0 */

#include <inttypes.h>
#include <stdio.h>

#include "fakeuv.h"
#include "out.h"
#include "rig.h"

/* True if the next member needs a comma before it. */
static int comma;

static void member(const char *key)
{
	if (comma)
		putchar(',');
	comma = 1;
	if (key)
		printf("\"%s\":", key);
}

void out_num(const char *key, int64_t v)
{
	member(key);
	printf("%" PRId64, v);
}

void out_u64(const char *key, uint64_t v)
{
	member(key);
	printf("%" PRIu64, v);
}

void out_str(const char *key, const char *v)
{
	member(key);
	printf("\"%s\"", v);
}

void out_hex(const char *key, const void *p, size_t n)
{
	static const char digit[] = "0123456789abcdef";
	const uint8_t *b = p;

	member(key);
	putchar('"');
	for (size_t i = 0; i < n; i++) {
		putchar(digit[b[i] >> 4]);
		putchar(digit[b[i] & 15]);
	}
	putchar('"');
}

void out_open(const char *key, char bracket)
{
	member(key);
	putchar(bracket);
	comma = 0;
}

void out_close(char bracket)
{
	putchar(bracket);
	comma = 1;
}

void rec(const char *type, const char *name)
{
	comma = 0;
	putchar('{');
	out_str("t", type);
	if (name)
		out_str("name", name);
}

void rec_end(void)
{
	if (fake->log_len) {
		member("kernel");
		printf("[%.*s]", (int)fake->log_len - 1, fake->log);
		fake->log_len = 0;
	}
	printf("}\n");
	comma = 0;
}
