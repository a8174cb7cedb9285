// SPDX-License-Identifier: Apache-2.0

package ucma

import (
	"testing"

	"golang.org/x/sys/unix"

	"purerdma/abi"
	"purerdma/internal/cdev"
)

// TestMode checks how the system call of a command is made. This depends on the command and on
// the driver of its ID.
func TestMode(t *testing.T) {
	fd, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("unix.Open: %v", err)
	}
	dev, err := cdev.New(fd, "/dev/null")
	if err != nil {
		t.Fatalf("cdev.New: %v", err)
	}
	defer dev.Close()
	f := open(dev, nil)
	for _, tc := range []struct {
		name string
		file *File
		code uint32
		want cdev.Mode
	}{
		{"any, CREATE_ID", f, abi.RDMA_USER_CM_CMD_CREATE_ID, cdev.Raw},
		{"siw, RESOLVE_ADDR", f.On(abi.RDMA_DRIVER_SIW), abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, cdev.Raw},
		{"any, DESTROY_ID", f, abi.RDMA_USER_CM_CMD_DESTROY_ID, cdev.Ordinary},
		{"rxe, DESTROY_ID", f.On(abi.RDMA_DRIVER_RXE), abi.RDMA_USER_CM_CMD_DESTROY_ID, cdev.Raw},
		{"rxe, CONNECT", f.On(abi.RDMA_DRIVER_RXE), abi.RDMA_USER_CM_CMD_CONNECT, cdev.Raw},
		{"rxe, JOIN_MCAST", f.On(abi.RDMA_DRIVER_RXE), abi.RDMA_USER_CM_CMD_JOIN_MCAST, cdev.Ordinary},
		{"siw, CONNECT", f.On(abi.RDMA_DRIVER_SIW), abi.RDMA_USER_CM_CMD_CONNECT, cdev.SignalsBlocked},
		{"siw, ACCEPT", f.On(abi.RDMA_DRIVER_SIW), abi.RDMA_USER_CM_CMD_ACCEPT, cdev.Ordinary},
		{"mlx5, CONNECT", f.On(abi.RDMA_DRIVER_MLX5), abi.RDMA_USER_CM_CMD_CONNECT, cdev.Ordinary},
	} {
		if got := tc.file.mode(tc.code); got != tc.want {
			t.Errorf("%s: mode = %d, want %d", tc.name, got, tc.want)
		}
		if tc.file.file != dev || tc.file.dev != Device(dev) {
			t.Errorf("%s: On changed the file", tc.name)
		}
	}
	if f := New(dev); f.On(abi.RDMA_DRIVER_RXE) != f {
		t.Error("On(RDMA_DRIVER_RXE) returned another File, want the same File because the device is a test's")
	}
}
