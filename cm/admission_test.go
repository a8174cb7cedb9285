// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/internal/cdev"
	"purerdma/internal/lograte"
	"purerdma/provider"
	"purerdma/provider/rxe"
	"purerdma/ucma"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// crowdKernel is a kernel with a listener and any number of peers at a low cost. Their QPs
// share their queues, and a peer confirms at once.
type crowdKernel struct {
	queueKernel

	mu       sync.Mutex
	lastID   uint32
	ids      map[uint32]*crowdID
	listener *crowdID
	rejected map[netip.Addr]string // the last reason, by peer
}

type crowdID struct {
	uid    uint64
	file   *crowdFile
	remote netip.AddrPort
}

// crowdFile is an open connection manager.
type crowdFile struct {
	k      *crowdKernel
	events chan abi.UcmEventResp
	closed chan struct{}
	once   sync.Once
}

func newCrowd() *crowdKernel {
	return &crowdKernel{queueKernel: queueKernel{uverbstest.New("rxe0")}, ids: map[uint32]*crowdID{}, rejected: map[netip.Addr]string{}}
}

func (k *crowdKernel) host() *verbs.Host {
	return &verbs.Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: k}
}

// OpenCM opens the connection manager.
func (k *crowdKernel) OpenCM() (ucma.Device, error) {
	return &crowdFile{k: k, events: make(chan abi.UcmEventResp, 1000), closed: make(chan struct{})}, nil
}

// ask sends the listener a connect request from an address.
func (k *crowdKernel) ask(from string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lastID++
	k.ids[k.lastID] = &crowdID{file: k.listener.file, remote: netip.AddrPortFrom(netip.MustParseAddr(from), uint16(k.lastID))}
	k.listener.file.events <- abi.UcmEventResp{UID: k.listener.uid, ID: k.lastID, Event: abi.RDMA_CM_EVENT_CONNECT_REQUEST}
}

// reason returns the reason of the last rejection of a peer.
func (k *crowdKernel) reason(from string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rejected[netip.MustParseAddr(from)]
}

func (f *crowdFile) WriteWhenReadable(ctx context.Context, b []byte) error {
	select {
	case ev := <-f.events:
		*(*abi.UcmEventResp)(pointerAt(b, 8)) = ev
		return nil
	case <-f.closed:
		return net.ErrClosed
	case <-ctx.Done():
		return cdev.ContextError(ctx)
	}
}

func (f *crowdFile) Write(b []byte) error {
	k := f.k
	k.mu.Lock()
	defer k.mu.Unlock()
	body := b[8:]
	switch binary.NativeEndian.Uint32(b) {
	case abi.RDMA_USER_CM_CMD_CREATE_ID:
		k.lastID++
		k.ids[k.lastID] = &crowdID{uid: abi.View[abi.UcmCreateID](body).UID, file: f}
		*(*uint32)(pointerAt(b, 16)) = k.lastID
	case abi.RDMA_USER_CM_CMD_LISTEN:
		k.listener = k.ids[abi.View[abi.UcmListen](body).ID]
	case abi.RDMA_USER_CM_CMD_QUERY:
		resp := (*abi.UcmQueryAddrResp)(pointerAt(b, 8))
		resp.PortNum = 1
		resp.SrcAddr, resp.SrcSize, _ = ucma.EncodeSockaddr(ucma.IP(netip.MustParseAddrPort("10.0.0.1:7")))
		if id := k.ids[abi.View[abi.UcmQuery](body).ID]; id.remote.IsValid() {
			resp.DstAddr, resp.DstSize, _ = ucma.EncodeSockaddr(ucma.IP(id.remote))
		}
	case abi.RDMA_USER_CM_CMD_MIGRATE_ID:
		k.ids[abi.View[abi.UcmMigrateID](body).ID].file = f
	case abi.RDMA_USER_CM_CMD_INIT_QP_ATTR:
		r := (*abi.UverbsQPAttr)(pointerAt(b, 8))
		r.QPState = abi.View[abi.UcmInitQPAttr](body).QPState
		r.QPAttrMask = uint32(verbs.QPAttrState | attrsOf[r.QPState])
		r.PortNum, r.AHAttr.PortNum = 1, 1
	case abi.RDMA_USER_CM_CMD_ACCEPT:
		c := abi.View[abi.UcmAccept](body)
		id := k.ids[c.ID]
		id.uid = c.UID
		id.file.events <- abi.UcmEventResp{UID: id.uid, ID: c.ID, Event: abi.RDMA_CM_EVENT_ESTABLISHED}
	case abi.RDMA_USER_CM_CMD_REJECT:
		c := abi.View[abi.UcmReject](body)
		k.rejected[k.ids[c.ID].remote.Addr()] = string(c.PrivateData[:c.PrivateDataLen])
	case abi.RDMA_USER_CM_CMD_DESTROY_ID:
		delete(k.ids, abi.View[abi.UcmDestroyID](body).ID)
	}
	return nil
}

func (f *crowdFile) Wake()                             {}
func (f *crowdFile) Control(fn func(fd uintptr)) error { fn(3); return nil }

func (f *crowdFile) Close() error {
	f.once.Do(func() { close(f.closed) })
	return nil
}

// crowdServer accepts connections of a crowd.
type crowdServer struct {
	t  *testing.T
	k  *crowdKernel
	ln *Listener
	cq *verbs.CQ
}

func newCrowdServer(t *testing.T, config ListenConfig) *crowdServer {
	t.Helper()
	s := &crowdServer{t: t, k: newCrowd()}
	config.Host = s.k.host()
	var err error
	if s.ln, err = config.Listen(t.Context(), "tcp", ":7"); err != nil {
		t.Fatalf("Listen: %v", err)
	}
	t.Cleanup(func() { s.ln.Close() })
	dev, err := config.Host.Open("rxe0")
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { dev.Close() })
	if s.cq, err = dev.CreateCQ(verbs.CQConfig{Entries: 1, NoEvents: true}); err != nil {
		t.Fatalf("CreateCQ: %v", err)
	}
	t.Cleanup(func() { s.cq.Close() })
	return s
}

// request returns the next request, which must come from the address.
func (s *crowdServer) request(from string) *Request {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	req, err := s.ln.Accept(ctx)
	if err != nil {
		s.t.Fatalf("Accept: %v", err)
	}
	if got := req.RemoteAddr().Addr().String(); got != from {
		s.t.Fatalf("Accept() = request of %s, want one of %s", got, from)
	}
	return req
}

// connect accepts a connection from an address, and returns a function that closes it.
func (s *crowdServer) connect(from string) (closeConn func()) {
	s.t.Helper()
	s.k.ask(from)
	req := s.request(from)
	pd, err := req.PD()
	if err != nil {
		s.t.Fatalf("PD: %v", err)
	}
	qp, err := pd.CreateQP(qpOn(s.cq, s.cq))
	if err != nil {
		s.t.Fatalf("CreateQP: %v", err)
	}
	conn, err := req.Accept(s.t.Context(), qp, nil)
	if err != nil {
		s.t.Fatalf("Accept: %v", err)
	}
	return func() {
		conn.Close()
		qp.Close()
	}
}

// TestAddressAtItsLimit opens 10,000 idle connections from one address, which is its limit.
// Connections from another address are still accepted.
func TestAddressAtItsLimit(t *testing.T) {
	const most = 10000
	s := newCrowdServer(t, ListenConfig{MaxConns: most + 10, MaxConnsPerAddr: most})
	var open []func()
	for range most {
		open = append(open, s.connect("10.0.0.2"))
	}
	for i := range uint64(100) {
		s.k.ask("10.0.0.2") // refused within the next Accept
		s.connect("10.0.0.3")()
		if got, want := s.k.reason("10.0.0.2"), string(RefusedMaxConnsPerAddr); got != want {
			t.Fatalf("the peer at its limit was rejected with %q, want %q", got, want)
		}
		if got := s.ln.Refused(); got != i+1 {
			t.Fatalf("Refused() = %d, want %d", got, i+1)
		}
	}
	open[0]()
	open[0] = s.connect("10.0.0.2")
	for _, closeConn := range open {
		closeConn()
	}
	a := s.ln.admission
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.total != (tally{}) || len(a.from) > 0 {
		t.Errorf("counted after all connections were closed: %+v, %d addresses, want none", a.total, len(a.from))
	}
}

// TestLimits checks that each limit refuses a request over it with its own reason, and that
// the listener accepts a request again after a connection has ended.
func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		name    string
		config  ListenConfig
		other   bool // the second peer is another host
		pending bool // the first peer's request is not answered
		reason  Refusal
	}{
		{"MaxConns", ListenConfig{MaxConns: 1}, true, false, RefusedMaxConns},
		{"MaxConnsPerAddr", ListenConfig{MaxConnsPerAddr: 1}, false, false, RefusedMaxConnsPerAddr},
		{"MaxPending", ListenConfig{MaxPending: 1}, true, true, RefusedMaxPending},
		{"MaxPendingPerAddr", ListenConfig{MaxPendingPerAddr: 1}, false, true, RefusedMaxPendingPerAddr},
		{"pending requests are connections", ListenConfig{MaxConns: 1}, true, true, RefusedMaxConns},
		{"MaxPending excludes established connections", ListenConfig{MaxPending: 1, MaxPendingPerAddr: 1}, false, false, ""},
		{"MaxConnsPerAddr excludes other hosts", ListenConfig{MaxConnsPerAddr: 1}, true, false, ""},
		{"no limits", ListenConfig{MaxConns: -1, MaxConnsPerAddr: -1, MaxPending: -1, MaxPendingPerAddr: -1}, false, true, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newCrowdServer(t, tc.config)
			second := "10.0.0.2"
			if tc.other {
				second = "10.0.0.3"
			}
			var end func()
			if tc.pending {
				s.k.ask("10.0.0.2")
				req := s.request("10.0.0.2")
				end = func() { req.Reject(nil) }
			} else {
				end = s.connect("10.0.0.2")
			}
			if tc.reason != "" {
				s.k.ask(second)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				go func() {
					defer cancel()
					for s.k.reason(second) == "" && ctx.Err() == nil {
						time.Sleep(time.Millisecond)
					}
				}()
				if _, err := s.ln.Accept(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("Accept() with a request over the limit = %v, want it to wait", err)
				}
				if got := s.k.reason(second); got != string(tc.reason) {
					t.Errorf("rejected with %q, want %q", got, tc.reason)
				}
				end()
				s.connect(second)()
				return
			}
			s.connect(second)()
			end()
		})
	}
}

// TestDefaultLimits checks the default limits, which are lower in a process with few
// descriptors.
func TestDefaultLimits(t *testing.T) {
	a := newAdmission(&ListenConfig{})
	if a.all.conns < 1 || a.all.conns > defaultMaxConns || a.each.conns < 1 || a.each.conns > defaultMaxConnsPerAddr || a.each.conns > a.all.conns {
		t.Errorf("newAdmission() = %+v, per address %+v, want 1 to the default", a.all, a.each)
	}
	if a.all.pending != defaultMaxPending || a.each.pending != defaultMaxPendingPerAddr {
		t.Errorf("newAdmission() pending = %+v, per address %+v, want the defaults", a.all, a.each)
	}
}

// TestDefaultShare checks that one address cannot take all places of a listener by default.
func TestDefaultShare(t *testing.T) {
	for _, tc := range []struct {
		config ListenConfig
		want   int // requests of one address
	}{
		{ListenConfig{MaxConns: 100, MaxPending: 50}, 25},
		{ListenConfig{MaxConns: 100}, 50},
		{ListenConfig{MaxPending: 50}, 25},
		{ListenConfig{MaxConns: 2}, 1},
		{ListenConfig{MaxPending: 3}, 1},
		{ListenConfig{MaxConns: -1, MaxConnsPerAddr: -1, MaxPending: -1}, defaultMaxPendingPerAddr},
		{ListenConfig{MaxConns: 100, MaxConnsPerAddr: 99, MaxPending: 200}, 99},
	} {
		a := newAdmission(&tc.config)
		got := 0
		s, why := a.admit(mustAddr("10.0.0.2:1"))
		for ; s != nil; got++ {
			s, why = a.admit(mustAddr("10.0.0.2:1"))
		}
		if got != tc.want || why != RefusedMaxConnsPerAddr && why != RefusedMaxPendingPerAddr {
			t.Errorf("admit() of one address with %+v = %d requests and then %q, want %d and a limit of the address", tc.config, got, why, tc.want)
		}
		if s, why := a.admit(mustAddr("10.0.0.3:1")); s == nil {
			t.Errorf("admit() of another address with %+v = %q, want a place", tc.config, why)
		}
	}
}

// TestRefusalLog checks that every refused request is counted, and that at most one a second
// is logged.
func TestRefusalLog(t *testing.T) {
	var out strings.Builder
	ch, _ := newFakeChannel(t)
	ch.host.Log = slog.New(slog.NewTextHandler(&out, nil))
	id := newFakeID(t, ch)
	const each = 1000
	start := time.Now()
	for range each {
		ch.noteRefusal(id, RefusedMaxConns, nil)
	}
	most := 1 + int(time.Since(start)/lograte.Interval)
	if got := strings.Count(out.String(), "connect request refused"); got < 1 || got > most {
		t.Errorf("%d log records of %d refused requests, want 1 to %d:\n%s", got, each, most, out.String())
	}
	if !strings.Contains(out.String(), "requests=1") {
		t.Errorf("log =\n%s\nwant requests=1", out.String())
	}
	if got := ch.refused.Total(); got != each {
		t.Errorf("Total() = %d, want %d", got, each)
	}
}
