/* SPDX-License-Identifier: Apache-2.0 */

/* Records: one JSON object a line, on standard output. */
#ifndef OUT_H
#define OUT_H

#include <stddef.h>
#include <stdint.h>

/* rec begins a record, rec_end ends it with the commands that the kernel has got
 * since the last one. */
void rec(const char *type, const char *name);
void rec_end(void);

void out_num(const char *key, int64_t v);
void out_u64(const char *key, uint64_t v);
void out_str(const char *key, const char *v);
void out_hex(const char *key, const void *p, size_t n);

/* Objects and lists. The key is NULL inside a list. */
void out_open(const char *key, char bracket);
void out_close(char bracket);

#endif
