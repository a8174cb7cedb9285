/* SPDX-License-Identifier: Apache-2.0 */

/* The scenarios of libmlx5. */
#include "scenario.h"

const struct scenario scenarios[] = {
	{ "rc", rc }, { "uc", uc }, { "trace", trace }, { "sizes", sizes }, { "wrap", wrap }, { "counters", counters }, { "random", random_lists },
	{ "ud", datagrams }, { "srq", shared }, { "srq_count", srq_count }, { "xrc", xrc }, { "mw", windows }, { "raw", raw }, { "dc", dc }, { "cqs", cqs }, { "resets", resets },
	{ "faults", faults }, { "ece", ece }, {},
};
