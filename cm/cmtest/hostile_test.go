// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cmtest_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/longtest"
	"purerdma/ucma"
	"purerdma/uverbs/uverbstest"
)

// stranger is a client that uses the connection manager without a QP. It can therefore
// announce any QP number and any depths.
type stranger struct {
	f  *ucma.File
	id uint32
}

// ask sends a connect request.
func ask(k *cmtest.Kernel, to netip.AddrPort, param abi.UcmConnParam) (*stranger, error) {
	dev, err := k.OpenCM()
	if err != nil {
		return nil, err
	}
	s := &stranger{f: ucma.New(dev)}
	if s.id, err = s.f.CreateID(1, abi.RDMA_PS_TCP, 0); err == nil {
		if err = s.f.ResolveAddr(s.id, ucma.Addr{}, ucma.IP(to), 1000); err == nil {
			if err = s.f.ResolveRoute(s.id, 1000); err == nil {
				err = s.f.Connect(s.id, &param, abi.UcmECE{})
			}
		}
	}
	if err != nil {
		s.f.Close()
	}
	return s, err
}

// behave does one of the things that a peer may do after its request. Then it closes the
// peer's file.
func (s *stranger) behave(ctx context.Context, how int) {
	defer s.f.Close()
	switch how % 7 {
	case 0: // vanishes immediately
		return
	case 1:
		time.Sleep(time.Millisecond)
		return
	case 2: // never confirms
		time.Sleep(20 * time.Millisecond)
		return
	}
	for {
		ev, err := s.f.GetEvent(ctx)
		switch {
		case err != nil, ev.Type == abi.RDMA_CM_EVENT_REJECTED:
			return
		case ev.Type == abi.RDMA_CM_EVENT_CONNECT_RESPONSE && how%7 == 3:
			s.f.Reject(s.id, nil, 0)
			return
		case ev.Type == abi.RDMA_CM_EVENT_CONNECT_RESPONSE:
			s.f.Establish(s.id)
			if how%7 == 4 {
				s.f.Disconnect(s.id)
			}
			return
		}
	}
}

// TestHostileRequests makes hundreds of requests from strangers. Some vanish before or after
// the answer, and some never confirm it. The server rejects some requests, and closes others
// without an answer. Strangers announce false QP numbers and depths. Accept keeps working, and
// nothing is left open.
func TestHostileRequests(t *testing.T) {
	requests := 700
	if longtest.Enabled() {
		requests = 10_000
	}
	k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
	k.Retry = time.Second // a full backlog must not exhaust the attempts of the test's own requests
	before := restNow()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	ln, err := (&cm.ListenConfig{Host: k.Host()}).Listen(ctx, "tcp", ":7471")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	var taken, established atomic.Int64
	var servers sync.WaitGroup
	servers.Go(func() {
		for i := 0; ; i++ {
			req, err := ln.Accept(ctx)
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					t.Errorf("Accept: %v", err)
				}
				return
			}
			taken.Add(1)
			servers.Go(func() {
				defer req.Close()
				switch i % 5 {
				case 0:
					req.Reject([]byte("no"))
				case 1: // closed without an answer
				default:
					ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
					defer cancel()
					if conn, err := req.Accept(ctx, nil, nil); err == nil {
						established.Add(1)
						conn.WaitRecv(ctx)
						conn.Close()
					}
				}
			})
		}
	})
	var peers sync.WaitGroup
	atOnce := make(chan struct{}, 100)
	for i := range requests {
		atOnce <- struct{}{}
		peers.Go(func() {
			defer func() { <-atOnce }()
			param := abi.UcmConnParam{
				QPNum: uint32(i) * 0x01010101, PrivateDataLen: uint8(i % 57), ResponderResources: uint8(i), InitiatorDepth: uint8(i >> 3),
				RetryCount: uint8(i), RNRRetryCount: uint8(i), FlowControl: uint8(i), SRQ: uint8(i),
			}
			s, err := ask(k, netip.MustParseAddrPort("10.0.0.1:7471"), param)
			if err != nil {
				t.Errorf("ask(%d): %v", i, err)
				return
			}
			s.behave(ctx, i)
		})
	}
	peers.Wait()
	ln.Close()
	servers.Wait()
	t.Logf("%d requests, %d accepted, %d established", requests, taken.Load(), established.Load())
	if taken.Load() < int64(requests/2) || established.Load() == 0 {
		t.Errorf("accepted %d of %d requests, %d established, want at least half accepted and 1 established", taken.Load(), requests, established.Load())
	}
	if left := expectNothing(k, before); len(left) > 0 {
		t.Errorf("left %q, want nothing\n%s", left, stacks())
	}
}
