// SPDX-License-Identifier: Apache-2.0

// Package conformance compares the tables of conformance in docs/data with the code. They must
// cover all manual pages and functions of librdmacm, and the names in the tables must exist.
// The package also compares docs/data/pyverbs.csv with the cases of rdma-core's Python tests.
// The tables are parts of docs/reference/conformance.md and docs/reference/pyverbs.md.
package conformance
