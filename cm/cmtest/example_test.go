// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cmtest_test

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/uverbs/uverbstest"
)

// TestNoServer dials an address without a listener.
func TestNoServer(t *testing.T) {
	k := cmtest.New(uverbstest.New("rxe0", "rxe1")) // 10.0.0.1 and 10.0.0.2
	_, err := (&cm.Dialer{Host: k.Host()}).Dial(t.Context(), "tcp", "10.0.0.2:7471")
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Dial() = %v, want ECONNREFUSED", err)
	}
}

// TestRefusal dials a listener that refuses every request.
func TestRefusal(t *testing.T) {
	k := cmtest.New(uverbstest.New("rxe0", "rxe1")) // 10.0.0.1 and 10.0.0.2
	ln, err := (&cm.ListenConfig{Host: k.Host()}).Listen(t.Context(), "tcp", "10.0.0.1:7471")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer ln.Close()
	go refuse(t.Context(), ln) // the code under test
	_, err = (&cm.Dialer{Host: k.Host()}).Dial(t.Context(), "tcp", "10.0.0.1:7471")
	var rejected *cm.RejectError
	if !errors.As(err, &rejected) || rejected.Reason != cm.RejectConsumer {
		t.Errorf("Dial() = %v, want a RejectError with reason %v", err, cm.RejectConsumer)
	}
}

// refuse refuses every connect request.
func refuse(ctx context.Context, ln *cm.Listener) {
	for {
		req, err := ln.Accept(ctx)
		if err != nil {
			return
		}
		req.Reject([]byte("no room"))
	}
}
