// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/ucma"
	"purerdma/verbs"
)

// TestNegativeResolveTimeout checks that a negative timeout returns an error with the name of
// the field, before anything is opened.
func TestNegativeResolveTimeout(t *testing.T) {
	d := Dialer{ResolveTimeout: -time.Second}
	_, dialed := d.Dial(soonCtx(t), "tcp", "10.8.0.1:7")
	_, resolved := d.ResolveAddr(soonCtx(t), PortSpaceTCP, mustAddr("10.8.0.1:7"))
	for _, err := range []error{dialed, resolved} {
		var oe *OpError
		if !errors.As(err, &oe) || oe.Remote != mustAddr("10.8.0.1:7") || !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "ResolveTimeout is -1s") {
			t.Errorf("error = %v, want EINVAL with ResolveTimeout", err)
		}
	}
}

// TestNegativeBacklog checks that a negative backlog means the system's maximum, as for the
// kernel.
func TestNegativeBacklog(t *testing.T) {
	backlogs := []int32{}
	h := &hooked{fakeKernel: newFakeKernel()}
	ch := newEventChannel(ucma.New(h), &verbs.Host{})
	t.Cleanup(func() { ch.Close() })
	h.write = func(b []byte) {
		if binary.NativeEndian.Uint32(b) == abi.RDMA_USER_CM_CMD_LISTEN {
			backlogs = append(backlogs, int32(abi.View[abi.UcmListen](b[8:]).Backlog))
		}
	}
	for _, n := range []int{-1, math.MinInt, 0, 5} {
		if err := newFakeID(t, ch).Listen(n); err != nil {
			t.Fatalf("Listen: %v", err)
		}
	}
	if len(backlogs) != 4 || backlogs[0] != 0 || backlogs[1] != 0 || backlogs[2] != 0 || backlogs[3] != 5 {
		t.Errorf("backlogs of LISTEN = %v, want 0, 0, 0, 5", backlogs)
	}
}
