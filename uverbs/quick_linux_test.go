// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"testing"

	"purerdma/abi"
)

// TestQuick: the scheduler does not hear of what rxe does to a PD, a CQ or a QP, of
// completion channels, and of the registration of a little memory. It hears of all that may take long: other
// drivers, and the registration of much.
func TestQuick(t *testing.T) {
	command := func(code uint64) *Request {
		return &Request{Object: abi.UVERBS_OBJECT_DEVICE, Method: abi.UVERBS_METHOD_INVOKE_WRITE,
			Attrs: []Attr{u64(abi.UVERBS_ATTR_WRITE_CMD, code)}}
	}
	register := func(length uint64) *Request {
		req := command(abi.IB_USER_VERBS_CMD_REG_MR)
		req.Attrs = append(req.Attrs, Attr{ID: abi.UVERBS_ATTR_CORE_IN, Buf: abi.Bytes(&abi.UverbsRegMR{Length: length})})
		return req
	}
	create := &Request{Object: abi.UVERBS_OBJECT_QP, Method: abi.UVERBS_METHOD_QP_CREATE}
	for _, tc := range []struct {
		driver abi.DriverID
		req    *Request
		want   bool
	}{
		{abi.RDMA_DRIVER_RXE, create, true},
		{abi.RDMA_DRIVER_RXE, &Request{Object: abi.UVERBS_OBJECT_QP, Method: abi.UVERBS_METHOD_QP_DESTROY}, true},
		{abi.RDMA_DRIVER_RXE, command(abi.IB_USER_VERBS_CMD_MODIFY_QP), true},
		{abi.RDMA_DRIVER_RXE, &Request{Object: abi.UVERBS_OBJECT_CQ, Method: abi.UVERBS_METHOD_CQ_CREATE}, true},
		{abi.RDMA_DRIVER_RXE, command(abi.IB_USER_VERBS_CMD_ALLOC_PD), true},
		{abi.RDMA_DRIVER_RXE, command(abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL), true},
		{abi.RDMA_DRIVER_SIW, command(abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL), false},
		{abi.RDMA_DRIVER_RXE, command(abi.IB_USER_VERBS_CMD_REG_MR), false},
		{abi.RDMA_DRIVER_RXE, register(quickMR), true},
		{abi.RDMA_DRIVER_RXE, register(quickMR + 1), false},
		{abi.RDMA_DRIVER_SIW, register(1), false},
		{abi.RDMA_DRIVER_RXE, &Request{Object: abi.UVERBS_OBJECT_MR, Method: abi.UVERBS_METHOD_MR_DESTROY}, false},
		{abi.RDMA_DRIVER_SIW, create, false},
		{abi.RDMA_DRIVER_MLX5, command(abi.IB_USER_VERBS_CMD_MODIFY_QP), false},
	} {
		if got := quick(tc.driver, tc.req); got != tc.want {
			t.Errorf("driver %d, %s: %v, want %v", tc.driver, tc.req.Name(), got, tc.want)
		}
	}
}
