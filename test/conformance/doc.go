// SPDX-License-Identifier: Apache-2.0

// Package conformance holds docs/reference/conformance.md against the code: that nothing of
// the manual pages or of librdmacm's functions is missing in its tables, and that
// what the tables name exists. It does the same with docs/reference/pyverbs.md and the cases
// of rdma-core's Python tests.
package conformance
