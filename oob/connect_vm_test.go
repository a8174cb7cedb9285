// SPDX-License-Identifier: Apache-2.0

//go:build linux

package oob_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purerdma/internal/vmtest"
	"purerdma/oob"
	"purerdma/verbs"
)

// side is one QP with a buffer.
type side struct {
	qp   *verbs.QP
	mr   *verbs.MR
	path oob.Path
}

func closer(t *testing.T, c interface{ Close() error }) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

func check(t *testing.T, call string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
}

func newSide(t *testing.T, h vmtest.Host, typ verbs.QPType, from netip.Addr) *side {
	t.Helper()
	dev, err := verbs.DefaultHost().Open(h.Device)
	check(t, "verbs.DefaultHost().Open", err)
	closer(t, dev)
	gid, err := dev.GIDFor(1, from)
	check(t, "dev.GIDFor", err)
	if from.IsValid() && gid.GID.Addr() != from || gid.Type != verbs.GIDTypeRoCEv2 {
		t.Fatalf("GIDFor(1, %v) = %+v, want a RoCE v2 GID of that address", from, gid)
	}
	pd, err := dev.AllocPD()
	check(t, "dev.AllocPD", err)
	closer(t, pd)
	s := &side{path: oob.Path{SGIDIndex: gid.Index, Access: verbs.RemoteWrite}}
	s.qp, err = pd.CreateQP(verbs.QPConfig{Type: typ})
	check(t, "pd.CreateQP", err)
	closer(t, s.qp)
	s.mr, err = pd.Alloc(8192, verbs.LocalWrite|verbs.RemoteWrite)
	check(t, "pd.Alloc", err)
	closer(t, s.mr)
	check(t, "s.path.Init", s.path.Init(s.qp))
	return s
}

// speak posts a receive, connects, sends a message and receives the peer's message.
func (s *side) speak(ctx context.Context, conn net.Conn, join func(context.Context, net.Conn, *verbs.QP, *oob.Path, oob.Address) (oob.Address, error), say, hear string) error {
	if _, err := s.qp.PostRecv([]verbs.RecvWR{{ID: 1, SGList: []verbs.SGE{s.mr.Slice(0, 4096)}}}); err != nil {
		return err
	}
	own, err := oob.Local(s.qp, &s.path)
	if err != nil {
		return err
	}
	remote, err := join(ctx, conn, s.qp, &s.path, own)
	if err != nil {
		return err
	}
	n := copy(s.mr.Bytes()[4096:], say)
	wr := verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{s.mr.Slice(4096, n)}}
	head := 0
	if s.qp.Type() == verbs.UD {
		ah, err := s.qp.PD().CreateAH(s.path.AH(remote))
		if err != nil {
			return err
		}
		defer ah.Close()
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, remote.QPN, s.path.RemoteQKey()
		head = verbs.GRHLen
	}
	if _, err := s.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		return err
	}
	var wc [1]verbs.WC
	for _, cq := range []*verbs.CQ{s.qp.SendCQ(), s.qp.RecvCQ()} {
		if _, err := cq.Wait(ctx, wc[:]); err != nil {
			return err
		}
		if err := wc[0].Err(); err != nil {
			return err
		}
	}
	if got := string(s.mr.Bytes()[head:wc[0].ByteLen]); got != hear {
		return fmt.Errorf("received %q, want %q", got, hear)
	}
	return nil
}

// TestVMConnect connects both sides over TCP and sends at once, from given addresses and from
// default ones.
func TestVMConnect(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		for _, from := range [][2]netip.Addr{{}, {hosts[0].IPv4, hosts[1].IPv4}, {hosts[0].IPv6, hosts[1].IPv6}} {
			t.Run(fmt.Sprint(typ, " ", from[0]), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				a, p := newSide(t, hosts[0], typ, from[0]), newSide(t, hosts[1], typ, from[1])
				a.path.RetryCount = 5
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				check(t, "net.Listen", err)
				defer ln.Close()
				accepted := make(chan error, 1)
				go func() {
					conn, err := ln.Accept()
					if err == nil {
						defer conn.Close()
						err = p.speak(ctx, conn, oob.ConnectPassive, "from the passive side", "from the active side")
					}
					accepted <- err
				}()
				conn, err := net.Dial("tcp", ln.Addr().String())
				check(t, "net.Dial", err)
				defer conn.Close()
				if err := a.speak(ctx, conn, oob.ConnectActive, "from the active side", "from the passive side"); err != nil {
					t.Errorf("active: %v", err)
				}
				if err := <-accepted; err != nil {
					t.Errorf("passive: %v", err)
				}
				if typ == verbs.RC {
					wantRetries(t, a.qp, 5)
					wantRetries(t, p.qp, 6)
				}
			})
		}
	}
}

func wantRetries(t *testing.T, qp *verbs.QP, want uint8) {
	t.Helper()
	if a, err := qp.Query(); err != nil || a.RetryCount != want {
		t.Errorf("Query() = %d retries, %v, want %d", a.RetryCount, err, want)
	}
}

// TestVMStrangeAddress passes unusable addresses of a peer to the kernel. ConnectActive must
// return an error and leave the QP's state unchanged.
func TestVMStrangeAddress(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for name, wire := range map[string]string{
		"no GID":              "0000:000011:000000:00000000000000000000000000000000\x00",
		"multicast GID":       "0000:000011:000000:ff020000000000000000000000000001\x00",
		"GID without a route": "0000:000011:000000:00000000000000000000ffffcb007101\x00",
	} {
		t.Run(name, func(t *testing.T) {
			s := newSide(t, hosts[0], verbs.RC, netip.Addr{})
			l, r := net.Pipe()
			defer l.Close()
			go func() {
				defer r.Close()
				r.Read(make([]byte, 100))
				r.Write([]byte(wire))
			}()
			own, err := oob.Local(s.qp, &s.path)
			check(t, "oob.Local", err)
			_, err = oob.ConnectActive(t.Context(), l, s.qp, &s.path, own)
			if _, ok := errors.AsType[syscall.Errno](err); !ok || s.qp.State() != verbs.QPInit {
				t.Errorf("ConnectActive = %v, state %v, want an errno and INIT", err, s.qp.State())
			}
			t.Log(err)
		})
	}
}

// TestVMNoGID checks that GIDFor explains its failure.
func TestVMNoGID(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	dev, err := verbs.DefaultHost().Open(hosts[0].Device)
	check(t, "verbs.DefaultHost().Open", err)
	closer(t, dev)
	for addr, want := range map[netip.Addr]string{
		hosts[1].IPv4:                      "it is an address of " + hosts[1].Interface + ", the device belongs to " + hosts[0].Interface,
		hosts[1].IPv6:                      "it is an address of " + hosts[1].Interface,
		netip.MustParseAddr("203.0.113.1"): "this network namespace has no such address",
	} {
		_, err := dev.GIDFor(1, addr)
		if _, ok := errors.AsType[*verbs.NoGIDError](err); !ok || !errors.Is(err, syscall.EADDRNOTAVAIL) || !strings.Contains(err.Error(), want) {
			t.Errorf("GIDFor(1, %v) = %v, want %q", addr, err, want)
		}
	}
	if _, err := dev.GIDFor(9, netip.Addr{}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("dev.GIDFor error = %v, want %v", err, syscall.EINVAL)
	}
}

// TestVMGIDElsewhere checks that GIDFor returns no GID in a network namespace without the
// interface, and that its error explains this.
func TestVMGIDElsewhere(t *testing.T) {
	hosts := vmtest.Hosts(t, 1)
	dev, err := verbs.DefaultHost().Open(hosts[0].Device)
	check(t, "verbs.DefaultHost().Open", err)
	closer(t, dev)
	for _, addr := range []netip.Addr{{}, hosts[0].IPv4} {
		answered := make(chan error)
		go func() {
			runtime.LockOSThread() // never unlocked, so that the thread ends in its namespace
			err := unix.Unshare(unix.CLONE_NEWNET)
			if err == nil {
				_, err = dev.GIDFor(1, addr)
			}
			answered <- err
		}()
		err := <-answered
		if _, ok := errors.AsType[*verbs.NoGIDError](err); !ok || !strings.Contains(err.Error(), "its network interface is in another network namespace") {
			t.Errorf("GIDFor(1, %v) = %v, want an error about the namespace", addr, err)
		}
	}
	if _, err := dev.GIDFor(1, hosts[0].IPv4); err != nil {
		t.Errorf("GIDFor(1, %v) in this namespace = %v", hosts[0].IPv4, err)
	}
}

// TestIWARPUnsupported checks that iWARP needs the connection manager.
func TestIWARPUnsupported(t *testing.T) {
	hosts := vmtest.Hosts(t, 1)
	dev, err := verbs.DefaultHost().Open(hosts[0].Device)
	check(t, "verbs.DefaultHost().Open", err)
	closer(t, dev)
	if _, err := dev.GIDFor(1, netip.Addr{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("dev.GIDFor error = %v, want %v", err, errors.ErrUnsupported)
	}
	pd, err := dev.AllocPD()
	check(t, "dev.AllocPD", err)
	closer(t, pd)
	qp, err := pd.CreateQP(verbs.QPConfig{})
	check(t, "pd.CreateQP", err)
	closer(t, qp)
	var p oob.Path
	if err := p.Init(qp); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("p.Init = %v, want %v", err, errors.ErrUnsupported)
	}
	if err := p.Connect(qp, oob.Address{}, oob.Address{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("p.Connect = %v, want %v", err, errors.ErrUnsupported)
	}
}
