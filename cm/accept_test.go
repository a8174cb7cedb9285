// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"purerdma/abi"
	"purerdma/ucma"
)

// TestOneAcceptAnswers: of several calls on one request, one reaches the kernel, which
// would take a second for a mistake and refuse the peer.
func TestOneAcceptAnswers(t *testing.T) {
	k := newFakeKernel()
	var asked atomic.Int32
	var rejected atomic.Int32
	h := &hooked{fakeKernel: k, write: func(b []byte) {
		switch binary.NativeEndian.Uint32(b) {
		case abi.RDMA_USER_CM_CMD_ACCEPT:
			asked.Add(1)
		case abi.RDMA_USER_CM_CMD_REJECT:
			rejected.Add(1)
		}
	}}
	host := fakeHost()
	ch := newEventChannel(ucma.New(h), host)
	defer ch.Close()
	l := newFakeID(t, ch)
	k.mu.Lock()
	k.uids[70] = 0
	k.mu.Unlock()
	k.events <- abi.UcmEventResp{UID: l.uid, ID: 70, Event: uint32(EventConnectRequest)}
	id := mustNext(t, ch).ID
	var err error
	if id.dev, err = host.Open("rxe0"); err != nil {
		t.Fatalf("Open: %v", err)
	}
	var accepted, refused atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var se *StateError
			switch err := id.Accept(&ConnParam{QPNum: 5}); {
			case err == nil:
				accepted.Add(1)
			case errors.As(err, &se):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if accepted.Load() != 1 || refused.Load() != 7 || asked.Load() != 1 || rejected.Load() != 0 {
		t.Errorf("%d accepted, %d refused; the kernel was asked %d times, and %d times to reject",
			accepted.Load(), refused.Load(), asked.Load(), rejected.Load())
	}
	if id.State() != StateAccepting {
		t.Errorf("the ID is %v", id.State())
	}
}
