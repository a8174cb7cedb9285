// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"errors"
	"syscall"
	"testing"

	"purerdma/abi"
)

// TestServiceStatus checks that the error of EventAddrInfoError has the kernel's status. The
// kernel is a fake, because no driver in the tests has a fabric.
func TestServiceStatus(t *testing.T) {
	k := newServiceKernel(t, 1)
	k.status = -int32(syscall.EINVAL)
	if found, err := k.find(t, 0, "storage"); !errors.Is(err, syscall.EINVAL) || len(found) != 0 {
		t.Errorf("find = %v, %v, want EINVAL", found, err)
	}
	if k.frames[abi.RDMA_USER_CM_CMD_QUERY] != "" {
		t.Error("QUERY was sent after a failed resolution")
	}
}

// TestServiceAddr checks the address of a record.
func TestServiceAddr(t *testing.T) {
	r := ServiceRecord{ID: 5, PKey: 0x8001, GID: [16]byte{0: 0xfe, 15: 2}}
	want := Addr{IB: IBAddr{PKey: 0x8001, GID: r.GID, ServiceID: 5, ServiceIDMask: 1<<64 - 1}}
	if got := r.Addr(); got != want || got.family() != "InfiniBand" {
		t.Errorf("Addr() = %v, want %v", got, want)
	}
}
