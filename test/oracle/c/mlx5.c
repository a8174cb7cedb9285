/* SPDX-License-Identifier: Apache-2.0 */

/* mlx5 SCENARIO SEED N: runs libmlx5 on the fake device, and prints its operations as
 * records. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

int nrandom;

static const struct {
	const char *name;
	void (*run)(void);
} scenarios[] = {
	{ "rc", rc }, { "uc", uc }, { "trace", trace }, { "sizes", sizes }, { "wrap", wrap }, { "counters", counters }, { "random", random_lists },
	{ "ud", datagrams }, { "srq", shared }, { "srq_count", srq_count }, { "xrc", xrc }, { "mw", windows }, { "raw", raw }, { "dc", dc }, { "cqs", cqs }, { "resets", resets },
	{ "faults", faults }, { "ece", ece },
};

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: mlx5 SCENARIO SEED N\n");
		return 2;
	}
	nrandom = atoi(argv[3]);
	for (unsigned i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++) {
		if (strcmp(scenarios[i].name, argv[1]))
			continue;
		open_device(argv[1]);
		start_random(argv[2]);
		scenarios[i].run();
		return 0;
	}
	fprintf(stderr, "mlx5: no scenario %s\n", argv[1]);
	return 2;
}
