// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/stream"
	"purerdma/uverbs/uverbstest"
)

// TestSharedCredits transfers data on more connections than the shared receives have credits for. No
// message may find the receives used up: see WithoutRNR. Afterwards the idle connections return their
// credits.
func TestSharedCredits(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		const conns, depth = 10, 48
		s := stream.NewShared(stream.SharedConfig{Slot: 1024, Depth: depth})
		defer s.Close()
		ln := listen(t, k, ends{listen: stream.Options{Shared: s}})
		var all sync.WaitGroup
		var both [2][conns]*stream.Conn
		for i := range conns {
			both[0][i] = dial(t, k, stream.Options{}, ln)
			both[1][i] = accept(t, ln)
		}
		for i := range conns {
			c, s := both[0][i], both[1][i]
			go io.Copy(s, streamconntest.OnlyReader(s))
			const size = 300_000
			all.Go(func() { io.Copy(c, streamconntest.Random(1, size)) })
			all.Go(func() {
				c.SetReadDeadline(time.Now().Add(streamconntest.Limit))
				if n, err := io.CopyN(io.Discard, streamconntest.OnlyReader(c), size); err != nil {
					t.Errorf("CopyN = %d, %v, want %d bytes", n, err, size)
				}
			})
		}
		all.Wait()
		const free = depth - conns*stream.BaseWindow
		notIdle := func() string {
			if n := s.FreeCredits(); n != free {
				return fmt.Sprintf("free credits = %d, want %d", n, free)
			}
			for i, c := range both[1] {
				if n := c.Window(); n != stream.BaseWindow {
					return fmt.Sprintf("window of connection %d = %d, want %d", i, n, stream.BaseWindow)
				}
			}
			return ""
		}
		for end := time.Now().Add(streamconntest.Limit); ; time.Sleep(10 * time.Millisecond) {
			busy := notIdle()
			if busy != "" && time.Now().Before(end) {
				continue
			}
			if busy != "" {
				t.Error(busy)
			}
			break
		}
		for i, c := range both[1] {
			streamconntest.Abort(both[0][i])
			streamconntest.Abort(c)
		}
	})
}

// TestCreditsOfSlowClose closes a connection whose QP the kernel does not end. The connection keeps its credits
// until the QP is closed, because its peer can still use the receives.
func TestCreditsOfSlowClose(t *testing.T) {
	k := streamconntest.RXE(t)
	const depth = 48
	s := stream.NewShared(stream.SharedConfig{Slot: 1024, Depth: depth})
	defer s.Close()
	ln := listen(t, k, ends{listen: stream.Options{Shared: s, Window: stream.BaseWindow}})
	dial(t, k, stream.Options{}, ln) // its credits remain in use
	accept(t, ln)
	dial(t, k, stream.Options{}, ln)
	c := accept(t, ln)
	const without = depth - stream.BaseWindow // free credits without c
	begun, end := make(chan struct{}), make(chan struct{})
	var once sync.Once
	k.OnCommand(func(cmd cmtest.Command) error {
		if cmd.Device == "rxe0" && cmd.Name == "IB_USER_VERBS_CMD_MODIFY_QP" {
			once.Do(func() { close(begun) })
			<-end
		}
		return nil
	})
	streamconntest.Abort(c)
	<-begun
	if n := s.FreeCredits(); n != without-stream.BaseWindow {
		t.Errorf("FreeCredits() = %d while the QP exists, want %d", n, without-stream.BaseWindow)
	}
	close(end)
	for stop := time.Now().Add(streamconntest.Limit); s.FreeCredits() != without; time.Sleep(time.Millisecond) {
		if time.Now().After(stop) {
			t.Fatalf("FreeCredits() = %d after the QP was closed, want %d", s.FreeCredits(), without)
		}
	}
}

// TestWithoutSRQ transfers data over devices without shared receive queues.
func TestWithoutSRQ(t *testing.T) {
	shared := func() *stream.Shared {
		s := stream.NewShared(stream.SharedConfig{Slot: 1 << 20})
		t.Cleanup(func() { s.Close() })
		return s
	}
	for name, tc := range map[string]struct {
		o      ends
		window int
	}{
		"default":     {ends{}, 32},
		"Shared":      {ends{dial: stream.Options{Shared: shared()}, listen: stream.Options{Shared: shared(), Window: 7}}, 7},
		"large slots": {ends{listen: stream.Options{Shared: shared(), Window: 100}}, 32},
	} {
		t.Run(name, func(t *testing.T) {
			machine := uverbstest.New("rxe0", "rxe1")
			machine.NoSRQ = true
			c, s := pair(t, streamconntest.Kernel(t, machine), tc.o)
			if n := s.Window(); n != tc.window {
				t.Errorf("Window() = %d, want %d", n, tc.window)
			}
			streamconntest.Transfer(t, c, s, 1<<20)
		})
	}
}

// TestNoCredits makes more connections than the shared receives allow.
func TestNoCredits(t *testing.T) {
	k := streamconntest.MLX5(t)
	s := stream.NewShared(stream.SharedConfig{Depth: 2*stream.BaseWindow + 1})
	defer s.Close()
	ln := listen(t, k, ends{listen: stream.Options{Shared: s}})
	dial(t, k, stream.Options{}, ln)
	dial(t, k, stream.Options{}, ln)
	d := stream.Dialer{CM: cm.Dialer{Host: k.Host()}}
	_, err := d.DialContext(streamconntest.Deadline(t), "tcp", ln.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "receives of the Shared are used up") {
		t.Errorf("DialContext = %v, want the reason of the refusal", err)
	}
	streamconntest.Abort(accept(t, ln))
	for {
		c, err := d.DialContext(streamconntest.Deadline(t), "tcp", ln.Addr().String())
		if err == nil {
			streamconntest.Abort(c.(*stream.Conn))
			return
		}
		if _, ok := errors.AsType[*cm.RejectError](err); !ok {
			t.Fatalf("DialContext after a Close: %v", err)
		}
	}
}

// TestQuiet checks that two idle connections send nothing.
func TestQuiet(t *testing.T) {
	k := streamconntest.MLX5(t)
	c, s := pair(t, k, ends{dial: stream.Options{Window: 3}, listen: stream.Options{Window: 3}, private: true})
	for range 50 { // all combinations of frames that cross each other
		var all sync.WaitGroup
		for _, x := range []*stream.Conn{c, s} {
			all.Go(func() { x.Write(make([]byte, 10)) })
			all.Go(func() { io.ReadFull(x, make([]byte, 10)) })
		}
		all.Wait()
	}
	last := [2]uint32{}
	for end := time.Now().Add(streamconntest.Limit); ; {
		now := [2]uint32{c.Sent(), s.Sent()}
		if now == last {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("Sent() = %v and %v before, want no more frames of idle connections", now, last)
		}
		last = now
		time.Sleep(200 * time.Millisecond)
	}
}

// TestLentCredits makes as many connections as the shared receives have room for, one right after the
// other. Each transfers a byte, so that the first ones get more credits than they need. They return these
// for the later ones.
func TestLentCredits(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		const conns = 60
		s := stream.NewShared(stream.SharedConfig{Slot: 256, Depth: conns * stream.BaseWindow})
		defer s.Close()
		ln := listen(t, k, ends{listen: stream.Options{Shared: s}})
		for i := range conns {
			d := stream.Dialer{CM: cm.Dialer{Host: k.Host()}}
			c, err := d.DialContext(streamconntest.Deadline(t), "tcp", ln.Addr().String())
			if err != nil {
				t.Fatalf("DialContext() of connection %d of %d: %v", i+1, conns, err)
			}
			t.Cleanup(func() { streamconntest.Abort(c.(*stream.Conn)) })
			echo := accept(t, ln)
			go io.Copy(echo, streamconntest.OnlyReader(echo))
			pingPong(t, c)
		}
	})
}
