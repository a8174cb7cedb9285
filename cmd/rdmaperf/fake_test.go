// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/provider"
	"purerdma/provider/rxe"
	"purerdma/provider/siw"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// TestOnFake runs both sides on a fake kernel in memory, connected over TCP.
func TestOnFake(t *testing.T) {
	for _, args := range []string{
		"send_bw -n 700 -s 5000", "send_bw -n 700 -s 8 -I 32 -q 3 -l 7 -e", "send_bw -n 1 -t 1", "write_bw -n 300 -s 5000 -Q 3", "read_bw -n 300 -q 3",
		"atomic_bw -n 300", "send_lat -n 300", "send_lat -n 300 -e", "write_lat -n 300 -s 100", "read_lat -n 300", "atomic_lat -n 300 -e", "send_bw -D 0.1",
		"send_lat -a -n 2", "send_bw -n 1600 -s 8 -l 64", "send_bw -n 1600 -s 8 -l 100 -t 128",
	} {
		t.Run(args, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			host := &verbs.Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: uverbstest.New("rxe0", "rxe1")}
			so, err := parse([]string{"-p", "0", "-d", "rxe0", "-x", "0"}, io.Discard)
			if err != nil {
				t.Fatalf("parse: %v", err)
			}
			so.host = host
			at, ended := make(chan int, 1), make(chan error, 1)
			go func() { ended <- serve(ctx, so, func(_ string, port int) { at <- port }) }()
			var port int
			select {
			case port = <-at:
			case err := <-ended:
				t.Fatalf("serve: %v", err)
			}
			o, err := parse(append(strings.Fields(args), "-verify", "-d", "rxe1", "-x", "0", "-p", fmt.Sprint(port), "127.0.0.1"), io.Discard)
			if err != nil {
				t.Fatalf("parse: %v", err)
			}
			o.host = host
			var results []result
			err = measure(ctx, o, func(*end) {}, func(r result) error { results = append(results, r); return nil })
			if err := errors.Join(err, <-ended); err != nil {
				t.Fatalf("measure: %v", err)
			}
			if len(results) != len(o.sizes) {
				t.Fatalf("measure reported %d results, want %d", len(results), len(o.sizes))
			}
			if _, way, _ := strings.Cut(args, " "); len(results) == 1 {
				checkFigures(t, o, way, results[0])
			}
		})
	}
}

// checkFigures checks that the figures of a result are plausible.
func checkFigures(t *testing.T, o *options, way string, r result) {
	t.Helper()
	if want := uint64(o.count * o.QPs); o.count > 0 && r.Messages != want || r.Messages == 0 || r.Seconds <= 0 {
		t.Errorf("%s: result %+v, want %d messages (0: any) in some time", way, r, want)
	}
	if o.kind.Latency && (r.Latency == nil || r.Latency.Min <= 0 || r.Latency.P99 < r.Latency.P50) || !o.kind.Latency && r.Average <= 0 {
		t.Errorf("%s: result %+v, want positive figures in ascending order", way, r)
	}
}

// TestNoDevice checks that the error distinguishes no device from no usable device.
func TestNoDevice(t *testing.T) {
	for words, host := range map[string]*verbs.Host{
		"no RDMA device (run rdmadoctor": {Kernel: uverbstest.New()},
		"no Go provider for driver rxe":  {Kernel: uverbstest.New("rxe0")},
	} {
		host.Drivers = []provider.Driver{siw.Driver{}}
		o, err := parse([]string{"-p", "0"}, io.Discard)
		if err != nil {
			t.Fatalf("parse: %v", err)
		}
		o.host = host
		if err := serve(t.Context(), o, func(string, int) {}); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("serve = %v, want %q", err, words)
		}
	}
}

// leaver is a server that does not acknowledge the last message.
type leaver struct {
	clientWay
	left chan struct{}
}

func (leaver) send(context.Context, message) error { return syscall.ECONNRESET }
func (l leaver) done() <-chan struct{}             { return l.left }

// TestLastWord checks leave when the last message is flushed. If the server leaves, it has
// received the message. If it stays, it has not.
func TestLastWord(t *testing.T) {
	for _, leaves := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		way := leaver{left: make(chan struct{})}
		go func() {
			time.Sleep(10 * time.Millisecond) // the completion comes before the event
			if leaves {
				close(way.left)
			}
			cancel()
		}()
		if err := (&client{way: way}).leave(ctx); (err == nil) != leaves || !leaves && err != syscall.ECONNRESET {
			t.Errorf("leave with a server that leaves (%t) = %v", leaves, err)
		}
	}
}

// TestTCPControl checks that messages arrive one by one, and that both ways of leaving are
// detected.
func TestTCPControl(t *testing.T) {
	l, r := net.Pipe()
	a, b := newTCPControl(l), newTCPControl(r)
	defer b.close()
	go func() {
		a.send(t.Context(), message{Size: 1})
		a.send(t.Context(), message{Size: 2})
		a.send(t.Context(), message{Error: "no"})
		a.close()
	}()
	for want := 1; want <= 2; want++ {
		if m, err := b.receive(t.Context()); err != nil || m.Size != want {
			t.Fatalf("receive = %+v, %v, want size %d", m, err, want)
		}
	}
	if _, err := b.receive(t.Context()); err == nil || !strings.Contains(err.Error(), "no") {
		t.Errorf("receive of an error message = %v, want the message", err)
	}
	if _, err := b.receive(t.Context()); !errors.Is(err, errLeft) {
		t.Errorf("receive after the other side has left = %v, want errLeft", err)
	}
	<-b.done()
	l, r = net.Pipe()
	a, b = newTCPControl(l), newTCPControl(r)
	defer a.close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := b.receive(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("receive with a cancelled context = %v, want context.Canceled", err)
	}
	b.close()
	if err := a.send(t.Context(), message{Error: strings.Repeat("x", maxMessage)}); err == nil {
		t.Error("send of a message that is too long = nil, want an error")
	}
}
