// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"fmt"
	"syscall"
	"testing"
	"unsafe"

	"purerdma/abi"
)

// TestIDHistoryWrapsAround records more calls and events than an ID keeps.
func TestIDHistoryWrapsAround(t *testing.T) {
	ch, k := newFakeChannel(t)
	id := newFakeID(t, ch)
	if h := id.History(); len(h.Entries) != 0 || h.String() != "" {
		t.Errorf("History() of a new ID = %v, want no entries", h)
	}
	k.queue(id.kid, EventUnreachable, -110)
	k.queue(id.kid, EventAddrChange, 0)
	k.queue(id.kid, EventRejected, 28)
	for range 3 {
		if _, err := ch.Next(t.Context()); err != nil {
			t.Fatalf("Next: %v", err)
		}
	}
	k.fail[abi.RDMA_USER_CM_CMD_DISCONNECT] = syscall.ENOMEM
	id.Disconnect()
	want := []string{
		"event RDMA_CM_EVENT_UNREACHABLE: state idle, failed: connection timed out",
		"event RDMA_CM_EVENT_ADDR_CHANGE: state idle",
		"event RDMA_CM_EVENT_REJECTED: state idle, status 28",
		"call disconnect: state idle, failed: cannot allocate memory",
	}
	for i := range 20 {
		if i%2 == 0 {
			id.mu.Lock()
			id.setState(State(i % numStates))
			id.mu.Unlock()
		}
		id.recordBrokenForTest(opSend)
		want = append(want, fmt.Sprintf("break send: state %v", State(i/2*2%numStates)))
		if len(want) > idRecords {
			want = want[len(want)-idRecords:]
		}
		var got []string
		for _, e := range id.History().Entries {
			got = append(got, fmt.Sprintf("%s %s: %s", e.Event, e.Object, e.Status))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("History() = %q, want %q", got, want)
		}
	}
	if n := unsafe.Sizeof(record{}); n != 16 {
		t.Errorf("Sizeof(record{}) = %d, want 16", n)
	}
}

func (id *ID) recordBrokenForTest(op string) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.recordOp(recBroken, op, nil)
}
