// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
)

// TestOneDoorbellForManySends holds the doorbell of a message back. Other goroutines can send in that time, and their
// messages have one doorbell together. The messages of a goroutine keep their order.
func TestOneDoorbellForManySends(t *testing.T) {
	const goroutines, each = 5, 2
	k := streamconntest.RXE(t)
	c, s := pair(t, k, ends{})
	ctx := streamconntest.Deadline(t)
	var doorbells atomic.Int32
	rung, release := make(chan struct{}), make(chan struct{})
	k.OnCommand(func(cmd cmtest.Command) error {
		if cmd.Name == "IB_USER_VERBS_CMD_POST_SEND" && doorbells.Add(1) == 1 {
			close(rung)
			<-release
		}
		return nil
	})
	var first, others sync.WaitGroup
	first.Go(func() {
		if err := c.Send(ctx, 0, nil); err != nil {
			t.Errorf("Send() = %v", err)
		}
	})
	<-rung
	for g := range goroutines {
		others.Go(func() {
			for i := range each {
				if err := c.Send(ctx, uint64(1+g*each+i), nil); err != nil {
					t.Errorf("Send() during a doorbell = %v", err)
				}
			}
		})
	}
	sent := make(chan struct{})
	go func() { others.Wait(); close(sent) }()
	select {
	case <-sent:
	case <-ctx.Done():
		t.Error("Send() waits for the doorbell of another goroutine")
	}
	close(release)
	first.Wait()
	<-sent
	if n := doorbells.Load(); n != 2 {
		t.Errorf("doorbells for %d messages = %d, want 2", 1+goroutines*each, n)
	}
	k.OnCommand(nil)
	var next [goroutines]int
	for i := range 1 + goroutines*each {
		m, err := s.Receive(ctx)
		if err != nil {
			t.Fatalf("Receive() = %v", err)
		}
		if tag := int(m.Tag()) - 1; (tag < 0) != (i == 0) {
			t.Errorf("Receive() of message %d = tag %d", i, m.Tag())
		} else if tag >= 0 {
			if got, want := tag%each, next[tag/each]; got != want {
				t.Errorf("Receive() = message %d of goroutine %d, want message %d", got, tag/each, want)
			}
			next[tag/each]++
		}
		m.Free()
	}
}
