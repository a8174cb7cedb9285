// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"errors"
	"syscall"
	"testing"

	"purerdma/cm"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/stream"
)

// TestLargeReceives checks that receives that do not fit the pool of a connection are refused at once.
// Otherwise a listener would refuse each peer.
func TestLargeReceives(t *testing.T) {
	k := streamconntest.RXE(t)
	ctx := streamconntest.Deadline(t)
	large := stream.Options{Slot: 1 << 20, Window: 33}
	lc := stream.ListenConfig{Options: large, CM: cm.ListenConfig{Host: k.Host()}}
	ln, err := lc.Listen(ctx, "tcp", "10.0.0.1:7")
	if err != nil {
		t.Fatalf("Listen() with a Shared = %v", err)
	}
	defer ln.Close()
	lc.Private = true
	if _, err := lc.Listen(ctx, "tcp", "10.0.0.1:8"); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Listen() with Private = %v, want %v", err, syscall.EINVAL)
	}
	d := stream.Dialer{Options: large, CM: cm.Dialer{Host: k.Host()}}
	if _, err := d.DialContext(ctx, "tcp", ln.Addr().String()); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("DialContext() = %v, want %v", err, syscall.EINVAL)
	}
	large.Window-- // as much as fits
	d.Options = large
	conn, err := d.DialContext(ctx, "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("DialContext() with %+v = %v", large, err)
	}
	streamconntest.Abort(conn.(*stream.Conn))
}
