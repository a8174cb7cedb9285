/* SPDX-License-Identifier: Apache-2.0 */

/* DUMPER SCENARIO SEED N: runs a provider of rdma-core on the fake device, and prints its
 * operations as records. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

int nrandom;

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: %s SCENARIO SEED N\n", argv[0]);
		return 2;
	}
	nrandom = atoi(argv[3]);
	for (const struct scenario *s = scenarios; s->name; s++) {
		if (strcmp(s->name, argv[1]))
			continue;
		open_device(argv[1]);
		start_random(argv[2]);
		s->run();
		return 0;
	}
	fprintf(stderr, "%s: no scenario %s\n", argv[0], argv[1]);
	return 2;
}
