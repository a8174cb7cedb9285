// SPDX-License-Identifier: Apache-2.0

package tool

import "purerdma/cm"

// NullConnParam returns the parameters that librdmacm's rdma_connect and rdma_accept send
// without a struct rdma_conn_param. They are the defaults of cm, except for the retry count,
// which is 7.
func NullConnParam() *cm.ConnParam { return &cm.ConnParam{RetryCount: 7} }

// Count returns a C program's number for a field of cm.ConnParam, with None for zero.
func Count(n int) int {
	if n == 0 {
		return cm.None
	}
	return n
}
