// SPDX-License-Identifier: Apache-2.0

//go:build linux

package connections

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

var (
	duration = flag.Duration("soak", 10*time.Second, "for how long the traffic of each protocol runs")
	seedFlag = flag.Uint64("seed", 0, "what random choices are made from; 0 is any")
	lanes    = flag.Int("lanes", 8, "connections at a time, to this process and to another one each")
	removals = flag.Bool("removals", false, "remove the device of one host at times, and create it again")
	netem    = flag.String("netem", "", "arguments of tc's netem, such as \"delay,2ms,reorder,0.5%,loss,0.1%\". A software ConnectX loses and delays messages with any arguments")
)

// The time without traffic after which a dead peer is detected.
const keepAlive = 5 * time.Second

var listenConfig = cm.ListenConfig{KeepAlive: keepAlive}

func TestMain(m *testing.M) {
	if number := os.Getenv(childEnv); number != "" {
		if err := child(number); err != nil {
			fmt.Fprintln(os.Stderr, "connections: another process:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	vmtest.Main(m)
}

// complete reports whether the traffic has included everything.
func (s *soak) complete(kills bool) bool {
	for i := range s.protocol.kinds {
		if s.stats.kinds[i].Load() == 0 {
			return false
		}
	}
	return s.stats.bytes.Load() > 1<<20 && s.stats.expired.Load() > 0 && s.stats.aborted.Load() > 0 && s.stats.cancelled.Load() > 0 && (!kills || s.stats.kills.Load() > 0 && (!*removals || s.stats.removals.Load() > 0))
}

// TestConnections runs connections within this process, and to a process that is killed again and again.
func TestConnections(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	vmtest.AnyMemory(t)
	disturb(t, hosts)
	seed := *seedFlag
	for seed == 0 {
		seed = rand.Uint64() >> 32
	}
	for i := range protocols {
		t.Run(protocols[i].name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := newSoak(ctx, &protocols[i], seed)
			go s.stop(cancel)
			s.traffic(t, i, hosts)
			if err := s.err(); err != nil {
				t.Errorf("%v\nAgain with -args '-seed %d -soak %v -lanes %d'", err, seed, *duration, *lanes)
			}
			if t.Log(&s.stats); !s.complete(true) {
				t.Error("the traffic has not included everything")
			}
		})
	}
}

// stop ends the traffic after a time. A slow machine gets up to four times as long, until the traffic has
// included everything.
func (s *soak) stop(cancel func()) {
	defer cancel()
	for start := time.Now(); s.ctx.Err() == nil && s.failed.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if d := time.Since(start); d >= 4**duration || d >= *duration && s.complete(true) {
			return
		}
	}
}

func (s *soak) traffic(t *testing.T, number int, hosts []vmtest.Host) {
	ln, err := s.protocol.listen(s.ctx, listenConfig, netip.AddrPortFrom(hosts[0].IPv4, 0).String())
	if err != nil {
		s.fault("Listen: %w", err)
		return
	}
	var serving, haunting, active sync.WaitGroup
	serving.Go(func() { s.serve(ln, nil) })
	other := &peer{s: s, number: number}
	if *removals {
		other.replug = func() { s.replug(t, hosts[1]) }
	}
	started, idle := make(chan struct{}), make(chan struct{})
	haunting.Go(func() { other.run(started, idle) })
	<-started
	for i := range *lanes {
		active.Go(func() {
			d := dialer(hosts[1])
			s.lane(uint64(2*i), func(ctx context.Context) (connection, *process, error) {
				c, err := s.protocol.dial(ctx, d, ln.Addr().String())
				return c, nil, err
			})
		})
		active.Go(func() {
			d := dialer(hosts[0])
			s.lane(uint64(2*i+1), func(ctx context.Context) (connection, *process, error) { return other.dial(ctx, d) })
		})
	}
	active.Wait()
	close(idle)
	haunting.Wait()
	if err := ln.Close(); err != nil {
		s.fault("closing the listener: %w", err)
	}
	serving.Wait()
}

// dialer returns a Dialer for the device of a host. The default time for an acknowledgement is 2 seconds. Thus the loss of
// a few packets would end an idle connection.
func dialer(h vmtest.Host) cm.Dialer {
	d := cm.Dialer{LocalAddr: cm.AddrFrom(netip.AddrPortFrom(h.IPv4, 0)), KeepAlive: keepAlive}
	if *netem != "" {
		d.AckTimeout = verbs.DecodeAckTimeout(14) // 67 ms
	}
	return d
}

// disturb makes the network lose, delay or reorder packets according to -netem.
func disturb(t *testing.T, hosts []vmtest.Host) {
	if *netem == "" {
		return
	}
	if vmtest.Driver() == "mlx5" {
		disturbModel(t, hosts[:2])
		return
	}
	for _, h := range hosts[:2] {
		args := append([]string{"qdisc", "replace", "dev", h.Interface, "root", "netem", "limit", "100000"}, strings.Split(*netem, ",")...)
		if out, err := exec.Command("tc", args...).CombinedOutput(); err != nil {
			t.Fatalf("tc %v: %v: %s", args, err, out)
		}
		t.Cleanup(func() {
			if out, err := exec.Command("tc", "qdisc", "del", "dev", h.Interface, "root").CombinedOutput(); err != nil {
				t.Errorf("tc qdisc del: %v: %s", err, out)
			}
		})
	}
}

// disturbModel makes the devices lose and delay messages, which do not pass through the kernel's network.
func disturbModel(t *testing.T, hosts []vmtest.Host) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() {
		close(stop)
		<-stopped
	})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
			fault := []any{"lose", 1}
			if i%40 > 0 { // a lost message of the connection manager costs seconds
				fault = []any{"delay", 5, 2000}
			}
			for _, h := range hosts {
				if err := h.TryFault(fault...); err != nil {
					t.Errorf("TryFault(%v) = %v", fault, err)
					return
				}
			}
		}
	}()
}
