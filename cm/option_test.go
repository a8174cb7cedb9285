// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/ucma"
	"purerdma/verbs"
)

// TestAckTimeoutOption checks that a timeout without a code is refused before a command.
func TestAckTimeoutOption(t *testing.T) {
	var options int
	h := &hooked{fakeKernel: newFakeKernel()}
	h.write = func(b []byte) {
		if binary.NativeEndian.Uint32(b) == abi.RDMA_USER_CM_CMD_SET_OPTION {
			options++
		}
	}
	ch := newEventChannel(ucma.New(h), &verbs.Host{})
	defer ch.Close()
	id := newFakeID(t, ch)
	for _, d := range []time.Duration{time.Millisecond, verbs.NoTimeout} {
		if err := id.SetAckTimeout(d); err != nil {
			t.Errorf("SetAckTimeout(%v) = %v, want nil", d, err)
		}
	}
	if options != 2 {
		t.Errorf("%d SET_OPTION commands, want 2", options)
	}
	for _, d := range []time.Duration{0, -2, 3 * time.Hour} {
		var oe *OpError
		if err := id.SetAckTimeout(d); !errors.As(err, &oe) || !errors.Is(err, verbs.ErrTimeoutRange) {
			t.Errorf("SetAckTimeout(%v) = %v, want an *OpError with %v", d, err, verbs.ErrTimeoutRange)
		}
	}
	if options != 2 {
		t.Errorf("%d SET_OPTION commands after the refusals, want 2", options)
	}
}
