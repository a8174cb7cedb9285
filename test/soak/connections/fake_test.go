// SPDX-License-Identifier: Apache-2.0

//go:build linux

package connections

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
)

// inMemory runs connections on a fake kernel.
func (s *soak) inMemory(t *testing.T, k *cmtest.Kernel, lanes int) error {
	s.fake = true
	ln, err := s.protocol.listen(s.ctx, cm.ListenConfig{Host: k.Host()}, "10.0.0.1:7471")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	var serving, active sync.WaitGroup
	serving.Go(func() { s.serve(ln, nil) })
	for i := range lanes {
		active.Go(func() {
			s.lane(uint64(i), func(ctx context.Context) (connection, *process, error) {
				c, err := s.protocol.dial(ctx, cm.Dialer{Host: k.Host()}, ln.Addr().String())
				return c, nil, err
			})
		})
	}
	active.Wait()
	if err := ln.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	serving.Wait()
	return s.err()
}

// TestInMemory runs connections without a real kernel, until they have included everything.
func TestInMemory(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := newSoak(ctx, &p, max(*seedFlag, 1))
				go func() {
					for !s.complete(false) && s.failed.Err() == nil {
						time.Sleep(time.Millisecond)
					}
					cancel()
				}()
				if err := s.inMemory(t, k, 4); err != nil {
					t.Errorf("s.inMemory: %v", err)
				}
				t.Log(&s.stats)
			})
		})
	}
}

// TestSees corrupts the data once in each way. The test must detect it.
func TestSees(t *testing.T) {
	for _, c := range []struct {
		name     string
		protocol *protocol
		do       func(*spoil)
		says     string
	}{
		{"a flipped bit", &streamProtocols[0], func(s *spoil) { s.flip.Store(20) }, "some differ"},
		{"an early end", &streamProtocols[0], func(s *spoil) { s.end.Store(20) }, "bytes missing"},
		{"a flipped bit in a message", &messageProtocols[0], func(s *spoil) { s.flip.Store(20) }, "some differ"},
		{"a lost message", &messageProtocols[0], func(s *spoil) { s.end.Store(20) }, "messages missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s := newSoak(ctx, c.protocol, 1)
			c.do(&s.spoil)
			err := s.inMemory(t, streamconntest.RXE(t), 4)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("inMemory() = %v, want %q", err, c.says)
			}
		})
	}
}
