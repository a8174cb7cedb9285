// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"errors"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/uverbs"
)

// TestCloseReturnsWhatFailed refuses the destruction of the QP or of a CQ in the kernel. Close
// returns the error, and the next Close closes the remaining objects.
func TestCloseReturnsWhatFailed(t *testing.T) {
	for name, is := range map[string]func(*uverbs.Request) bool{
		"QP": func(r *uverbs.Request) bool {
			return r.Object == abi.UVERBS_OBJECT_QP && r.Method == abi.UVERBS_METHOD_QP_DESTROY
		},
		"CQ": func(r *uverbs.Request) bool {
			return r.Object == abi.UVERBS_OBJECT_CQ && r.Method == abi.UVERBS_METHOD_CQ_DESTROY
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := linkedConn(t)
			fails := 1
			l.faults.request = func(r *uverbs.Request) error {
				if is(r) && fails > 0 {
					fails--
					return syscall.EINVAL
				}
				return nil
			}
			if err := l.Close(); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("Close() = %v, want %v", err, syscall.EINVAL)
			}
			for range 2 {
				if err := l.Close(); err != nil {
					t.Errorf("second Close() = %v, want nil", err)
				}
			}
			if err := errors.Join(l.peer.Close(), l.buf.Close(), l.theirs.Close()); err != nil {
				t.Errorf("Close of the peer and the memory = %v, want nil", err)
			}
			if n := l.faults.Opened(); n != 0 {
				t.Errorf("Opened() = %d, want 0", n)
			}
		})
	}
}

// TestIDCloseReturnsWhatFailed checks that ID.Close returns the error of DESTROY_ID, and that
// the next Close tries again.
func TestIDCloseReturnsWhatFailed(t *testing.T) {
	ch, k := newFakeChannel(t)
	id := newFakeID(t, ch)
	k.mu.Lock()
	k.fail[abi.RDMA_USER_CM_CMD_DESTROY_ID] = syscall.EINVAL
	k.mu.Unlock()
	if err := id.Close(); !errors.Is(err, syscall.EINVAL) || k.living() != 1 {
		t.Errorf("Close() = %v, want %v and the ID left", err, syscall.EINVAL)
	}
	k.mu.Lock()
	k.fail[abi.RDMA_USER_CM_CMD_DESTROY_ID] = nil
	k.mu.Unlock()
	for range 2 {
		if err := id.Close(); err != nil || k.living() != 0 {
			t.Errorf("Close() = %v with %d IDs left, want nil, 0", err, k.living())
		}
	}
}
