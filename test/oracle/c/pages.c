/* SPDX-License-Identifier: Apache-2.0 */

/* The pages of doorbell registers. */
#include <string.h>

#include "out.h"
#include "rig.h"

void poison_pages(void)
{
	for (int i = 0; i < fake->nmap; i++)
		if (!fake->map[i].readable)
			memset(fake->map[i].addr, UAR_POISON, fake->map[i].len);
}

void print_pages(void)
{
	out_open("uar", '[');
	for (int i = 0; i < fake->nmap; i++) {
		const struct fake_map *m = &fake->map[i];
		uint32_t lo = m->len, hi = 0;

		if (m->readable)
			continue;
		for (uint32_t k = 0; k < m->len; k++)
			if (m->addr[k] != UAR_POISON) {
				if (k < lo)
					lo = k & ~7u;
				hi = (k & ~7u) + 8;
			}
		if (!hi)
			continue;
		out_open(NULL, '{');
		out_u64("mmap", m->offset);
		out_num("at", lo);
		out_hex("bytes", m->addr + lo, hi - lo);
		out_close('}');
	}
	out_close(']');
}
