// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"testing"

	"purerdma/abi"
	"purerdma/internal/cdev"
)

// TestMode checks which requests are raw system calls. With rxe, these are requests on a PD, a
// CQ or a QP, completion channels, and the registration of small memory regions. Requests that
// may take long are ordinary system calls. These are the requests of other drivers, and the
// registration of large regions.
func TestMode(t *testing.T) {
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
		want   cdev.Mode
	}{
		{abi.RDMA_DRIVER_RXE, create, cdev.Raw},
		{abi.RDMA_DRIVER_RXE, &Request{Object: abi.UVERBS_OBJECT_QP, Method: abi.UVERBS_METHOD_QP_DESTROY}, cdev.Raw},
		{abi.RDMA_DRIVER_RXE, command(abi.IB_USER_VERBS_CMD_MODIFY_QP), cdev.Raw},
		{abi.RDMA_DRIVER_RXE, &Request{Object: abi.UVERBS_OBJECT_CQ, Method: abi.UVERBS_METHOD_CQ_CREATE}, cdev.Raw},
		{abi.RDMA_DRIVER_RXE, command(abi.IB_USER_VERBS_CMD_ALLOC_PD), cdev.Raw},
		{abi.RDMA_DRIVER_RXE, command(abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL), cdev.Raw},
		{abi.RDMA_DRIVER_SIW, command(abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL), cdev.Ordinary},
		{abi.RDMA_DRIVER_RXE, command(abi.IB_USER_VERBS_CMD_REG_MR), cdev.Ordinary},
		{abi.RDMA_DRIVER_RXE, register(rawMR), cdev.Raw},
		{abi.RDMA_DRIVER_RXE, register(rawMR + 1), cdev.Ordinary},
		{abi.RDMA_DRIVER_SIW, register(1), cdev.Ordinary},
		{abi.RDMA_DRIVER_RXE, &Request{Object: abi.UVERBS_OBJECT_MR, Method: abi.UVERBS_METHOD_MR_DESTROY}, cdev.Ordinary},
		{abi.RDMA_DRIVER_SIW, create, cdev.Ordinary},
		{abi.RDMA_DRIVER_MLX5, command(abi.IB_USER_VERBS_CMD_MODIFY_QP), cdev.Ordinary},
	} {
		if got := mode(tc.driver, tc.req); got != tc.want {
			t.Errorf("driver %d, %s: mode = %v, want %v", tc.driver, tc.req.Name(), got, tc.want)
		}
	}
}
