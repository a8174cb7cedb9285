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

// TestOneAcceptAnswers checks that only one of several Accept calls on one request reaches the
// kernel. The kernel would treat a second ACCEPT as an error and reject the peer.
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
				t.Errorf("Accept() = %v, want nil or a StateError", err)
			}
		})
	}
	wg.Wait()
	if accepted.Load() != 1 || refused.Load() != 7 || asked.Load() != 1 || rejected.Load() != 0 {
		t.Errorf("%d accepted, %d refused, %d ACCEPT commands, %d REJECT commands, want 1, 7, 1, 0",
			accepted.Load(), refused.Load(), asked.Load(), rejected.Load())
	}
	if id.State() != StateAccepting {
		t.Errorf("State() = %v, want %v", id.State(), StateAccepting)
	}
}
