// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/rxe"
	"purerdma/ucma"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// TestCloseBehindABatch checks that the Close of an ID does not wait for a Batch. The caller
// owns the QP of the ID. The QP's Close waits for a Batch that another goroutine builds.
func TestCloseBehindABatch(t *testing.T) {
	ep, _ := fakeEndpoint(t, StateEstablished)
	pd, err := ep.id.dev.DefaultPD()
	if err != nil {
		t.Fatalf("DefaultPD: %v", err)
	}
	qp, err := pd.CreateQP(verbs.QPConfig{})
	if err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	if err := qp.Modify(&verbs.QPAttr{State: verbs.QPInit, Port: 1}, verbs.QPAttrState|verbs.QPAttrPort|verbs.QPAttrPKeyIndex|verbs.QPAttrAccess); err != nil {
		t.Fatalf("Modify: %v", err)
	}
	ep.id.qp = qp
	var b verbs.Batch
	b.Reset(qp)
	b.SendInline(1, []byte("x"), 0) // the Batch is not posted, and holds the send queue
	closing := make(chan struct{})
	go func() { qp.Close(); close(closing) }()
	time.Sleep(20 * time.Millisecond) // until Close waits with the QP locked
	closed := make(chan struct{})
	go func() { ep.id.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(5 * closeGrace):
		t.Error("Close of the ID did not return before the Batch was discarded")
	}
	select {
	case <-closing:
		t.Error("Close of the QP returned before the Batch was discarded")
	default:
	}
	b.Discard()
	<-closing
	<-closed
}

// openHook is a kernel whose Open calls a function of the test, which may return an error.
type openHook struct {
	uverbs.Kernel
	open func() error
}

func (k *openHook) Open(uverbs.DeviceInfo) (uverbs.Transport, error) { return nil, k.open() }

// TestARequestOfAClosingChannel checks that a request that is fetched while its channel closes
// is closed with the channel. It is no failure of the listener.
func TestARequestOfAClosingChannel(t *testing.T) {
	k := newFakeKernel()
	k.device = true
	devices := &openHook{Kernel: uverbstest.New("rxe0")}
	ch := newEventChannel(ucma.New(k), &verbs.Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: devices})
	l := newFakeID(t, ch)
	closed := make(chan struct{})
	devices.open = func() error {
		ch.mu.Lock()
		var id *ID
		for _, known := range ch.ids {
			if known != l {
				id = known
			}
		}
		ch.mu.Unlock()
		go func() { ch.Close(); close(closed) }()
		for !id.gate.isShut() {
			time.Sleep(time.Millisecond)
		}
		return syscall.EIO
	}
	k.mu.Lock()
	k.uids[70] = 0
	k.mu.Unlock()
	k.events <- abi.UcmEventResp{UID: l.uid, ID: 70, Event: uint32(EventConnectRequest)}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if ev, err := ch.Next(ctx); ev != nil || !errors.Is(err, net.ErrClosed) {
		t.Errorf("Next() = %v, %v, want net.ErrClosed", ev, err)
	}
	<-closed
	if n := k.living(); n != 0 {
		t.Errorf("%d IDs left, want 0", n)
	}
}
