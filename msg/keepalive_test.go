// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/msg"
)

// TestKeepAlive unplugs the device of the peer while calls wait, and while no goroutine uses the connection.
func TestKeepAlive(t *testing.T) {
	for name, idle := range map[string]bool{"waiting": false, "idle": true} {
		t.Run(name, func(t *testing.T) {
			k := streamconntest.RXE(t)
			ln := listen(t, k, msg.Options{})
			local, err := cm.ParseAddr("10.0.0.2:0")
			if err != nil {
				t.Fatalf("ParseAddr() = %v", err)
			}
			ctx := streamconntest.Deadline(t)
			c, err := (&msg.Dialer{CM: cm.Dialer{Host: k.Host(), LocalAddr: local, KeepAlive: 10 * time.Millisecond}}).Dial(ctx, "tcp", ln.Addr().String())
			if err != nil {
				t.Fatalf("Dial() = %v", err)
			}
			t.Cleanup(func() { closed(t, c) })
			accept(t, ln)
			b := &blocked{t: t, conn: c, errs: map[string]error{}}
			if !idle {
				b.start("Receive", func() error { return second(c.Receive(ctx)) })
				b.start("Call", func() error { return second(c.Call(ctx, 0, nil)) })
				waits(t, ctx, c)
			}
			if !k.Unplug("rxe0") {
				t.Fatal("Unplug(rxe0) = false, want true")
			}
			select {
			case <-c.Done():
			case <-ctx.Done():
				t.Fatal("Done() is not closed, want the end of a connection to an unplugged peer")
			}
			b.all.Wait()
			b.errs["Err"], b.errs["Send"] = c.Err(), c.Send(ctx, 0, nil)
			for name, err := range b.errs {
				failure, ok := errors.AsType[net.Error](err)
				if !ok || !failure.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s of an unplugged peer = %v, want a net.Error with Timeout()", name, err)
				}
			}
		})
	}
}
