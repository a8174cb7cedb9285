// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs

import (
	"context"
	"errors"
	"testing"
	"time"

	"purerdma/provider"
	"purerdma/provider/rxe"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
)

// slowClose is a kernel whose devices release their users' memory when the test allows it.
type slowClose struct {
	uverbs.Kernel
	closing, free chan struct{}
}

type slowTransport struct {
	uverbs.Transport
	k *slowClose
}

func (k *slowClose) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	t, err := k.Kernel.Open(info)
	return slowTransport{t, k}, err
}

func (t slowTransport) Close() error {
	close(t.k.closing)
	<-t.k.free
	return t.Transport.Close()
}

// TestRemovalReportedAfterClose checks that a removal is reported only after the device was
// closed. Until then, a READ in progress may write to memory that a waiting goroutine would
// reuse after the report.
func TestRemovalReportedAfterClose(t *testing.T) {
	k := &slowClose{Kernel: uverbstest.New("rxe0"), closing: make(chan struct{}), free: make(chan struct{})}
	host := &Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: k}
	dev, err := host.Open("rxe0")
	if err != nil {
		t.Fatalf("Host.Open: %v", err)
	}
	defer dev.Close()
	cq, err := dev.CreateCQ(CQConfig{})
	if err != nil {
		t.Fatalf("Device.CreateCQ: %v", err)
	}
	defer cq.Close()
	told := make(chan error, 1)
	go func() {
		var wc [1]WC
		_, err := cq.Wait(context.Background(), wc[:])
		told <- err
	}()
	removed := make(chan struct{})
	go func() { dev.remove(); close(removed) }()
	<-k.closing
	select {
	case err := <-told:
		t.Errorf("Wait returned before the device was closed: %v", err)
		told <- err
	case <-time.After(50 * time.Millisecond):
	}
	close(k.free)
	var gone *DeviceRemovedError
	if err := <-told; !errors.As(err, &gone) {
		t.Errorf("Wait = %v, want a DeviceRemovedError", err)
	}
	<-removed
}
