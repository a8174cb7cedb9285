// SPDX-License-Identifier: Apache-2.0

// Package conformance compares docs/reference/conformance.md with the code. Its tables must
// cover all manual pages and functions of librdmacm, and the names in the tables must exist.
// The package also compares docs/reference/pyverbs.md with the cases of rdma-core's Python
// tests.
package conformance
