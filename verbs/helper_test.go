// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/internal/bridge"
	"purerdma/internal/vmtest"
	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/provider/rxe"
	"purerdma/test/connectx"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// internals has the functions that package verbs does not export.
var internals = bridge.Functions.(*bridge.Verbs[*verbs.Host, *verbs.Device, *verbs.QP, *verbs.CQ, *verbs.SRQ, *verbs.WC])

func TestMain(m *testing.M) { vmtest.Main(m) }

// deadline bounds every wait of a test, so that a lost wake-up fails the test.
func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func closer(t testing.TB, c interface{ Close() error }) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// openDevice and similar functions create an object that is closed when the test ends.
func openDevice(t testing.TB, h *verbs.Host, name string) *verbs.Device {
	t.Helper()
	dev, err := h.Open(name)
	if err != nil {
		t.Fatalf("Host.Open: %v", err)
	}
	closer(t, dev)
	return dev
}

func openPD(t testing.TB, h *verbs.Host, device string) (*verbs.Device, *verbs.PD) {
	t.Helper()
	dev := openDevice(t, h, device)
	return dev, allocPD(t, dev)
}

func allocPD(t testing.TB, dev *verbs.Device) *verbs.PD {
	t.Helper()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatalf("Device.AllocPD: %v", err)
	}
	closer(t, pd)
	return pd
}

func createCQ(t testing.TB, dev *verbs.Device, cfg verbs.CQConfig) *verbs.CQ {
	t.Helper()
	cq, err := dev.CreateCQ(cfg)
	if err != nil {
		t.Fatalf("Device.CreateCQ: %v", err)
	}
	closer(t, cq)
	return cq
}

func createCompChannel(t testing.TB, dev *verbs.Device) *verbs.CompChannel {
	t.Helper()
	ch, err := dev.CreateCompChannel()
	if err != nil {
		t.Fatalf("Device.CreateCompChannel: %v", err)
	}
	closer(t, ch)
	return ch
}

// end is one side of a connection.
type end struct {
	dev  *verbs.Device
	host vmtest.Host
	pd   *verbs.PD
	cq   *verbs.CQ
	qp   *verbs.QP
	buf  *verbs.MR
	gid  verbs.GID
	gidx uint8
}

const everything = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic

func newEnd(t testing.TB, h *verbs.Host, host vmtest.Host, cap verbs.QPCap) *end {
	t.Helper()
	return newEndWith(t, h, host, verbs.QPConfig{Type: verbs.RC, Cap: cap})
}

// newEndWith creates an end with a QP of the given configuration, except the CQs. With an SRQ,
// the QP is on the PD of the SRQ.
func newEndWith(t testing.TB, h *verbs.Host, host vmtest.Host, cfg verbs.QPConfig) *end {
	t.Helper()
	dev := openDevice(t, h, host.Device)
	e := &end{dev: dev, host: host}
	if cfg.SRQ != nil {
		e.pd = cfg.SRQ.PD()
	} else {
		e.pd = allocPD(t, dev)
	}
	e.cq = createCQ(t, dev, verbs.CQConfig{})
	var err error
	cfg.SendCQ, cfg.RecvCQ = e.cq, e.cq
	if e.qp, err = e.pd.CreateQP(cfg); err != nil {
		t.Fatalf("PD.CreateQP: %v", err)
	}
	closer(t, e.qp)
	if e.buf, err = e.pd.Alloc(1<<16, everything); err != nil {
		t.Fatalf("PD.Alloc: %v", err)
	}
	closer(t, e.buf)
	if dev.Transport() == verbs.TransportIWARP {
		return e
	}
	gids, err := dev.GIDs()
	if err != nil {
		t.Fatalf("Device.GIDs: %v", err)
	}
	want := verbs.GID(host.IPv4.As16()) // IPv4-mapped
	for _, g := range gids {
		if g.GID == want && g.Type == verbs.GIDTypeRoCEv2 {
			e.gid, e.gidx = g.GID, g.Index
			return e
		}
	}
	t.Fatalf("no RoCE v2 GID of %v in %+v", host.IPv4, gids)
	return nil
}

func modify(t testing.TB, qp *verbs.QP, a verbs.QPAttr, mask verbs.QPAttrMask) {
	t.Helper()
	if err := qp.Modify(&a, mask); err != nil {
		t.Fatalf("QP.Modify: %v", err)
	}
}

// reset moves a QP to RESET. It reports whether the QP had to be reset twice. The completer of rxe completes a flushed
// request before it sets the state to ERR, so it may overwrite RESET (docs/reference/driver-faults.md).
func (e *end) reset(t testing.TB) (twice bool) {
	t.Helper()
	for {
		modify(t, e.qp, verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState)
		a, err := e.qp.Query()
		if err != nil {
			t.Fatalf("QP.Query: %v", err)
		}
		if a.State == verbs.QPReset {
			return twice
		}
		if twice || a.State != verbs.QPErr || e.qp.Device().DriverID() != abi.RDMA_DRIVER_RXE {
			t.Fatalf("QP.Query after RESET = state %v, want RESET", a.State)
		}
		twice = true
	}
}

// connectTo moves a QP to RTS. It connects the QP to the peer's, unless it is a UD QP.
func (e *end) connectTo(t testing.TB, peer *end) {
	t.Helper()
	e.init(t)
	e.rtr(t, peer)
	e.rts(t)
}

// qkey is the Q_Key of all UD QPs of the tests. A Q_Key with the highest bit would need
// privileges.
const qkey = 0x1ee7

// init, rtr and rts are the three steps of connectTo. Each sets only the required attributes.
func (e *end) init(t testing.TB) {
	t.Helper()
	a, mask := e.toInit()
	modify(t, e.qp, a, mask)
}

func (e *end) rtr(t testing.TB, peer *end) {
	t.Helper()
	a, mask := e.toRTR(peer)
	modify(t, e.qp, a, mask)
}

func (e *end) rts(t testing.TB) {
	t.Helper()
	a, mask := e.toRTS()
	modify(t, e.qp, a, mask)
}

func (e *end) toInit() (verbs.QPAttr, verbs.QPAttrMask) {
	a, mask := verbs.QPAttr{State: verbs.QPInit, Port: 1}, verbs.QPAttrState|verbs.QPAttrPKeyIndex|verbs.QPAttrPort
	if e.qp.Type() == verbs.UD {
		a.QKey, mask = qkey, mask|verbs.QPAttrQKey
	} else {
		a.Access, mask = everything, mask|verbs.QPAttrAccess
	}
	return a, mask
}

func (e *end) toRTR(peer *end) (verbs.QPAttr, verbs.QPAttrMask) {
	a, mask := verbs.QPAttr{State: verbs.QPRTR}, verbs.QPAttrState
	if e.qp.Type() != verbs.UD {
		a.PathMTU, a.DestQPNum, a.RQPSN, a.AH = verbs.MTU1024, peer.qp.Num(), peer.psn(), e.to(peer.gid)
		mask |= verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPNum | verbs.QPAttrRQPSN
	}
	if e.qp.Type() == verbs.RC {
		a.MaxDestRdAtomic, a.MinRNRTimer = 4, 12
		mask |= verbs.QPAttrMaxDestRdAtomic | verbs.QPAttrMinRNRTimer
	}
	return a, mask
}

func (e *end) toRTS() (verbs.QPAttr, verbs.QPAttrMask) {
	a, mask := verbs.QPAttr{State: verbs.QPRTS, SQPSN: e.psn()}, verbs.QPAttrState|verbs.QPAttrSQPSN
	if e.qp.Type() == verbs.RC {
		a.Timeout, a.RetryCount, a.RNRRetryCount, a.MaxRdAtomic = 14, 7, 7, 4
		mask |= verbs.QPAttrTimeout | verbs.QPAttrRetryCount | verbs.QPAttrRNRRetryCount | verbs.QPAttrMaxRdAtomic
	}
	return a, mask
}

// to returns the address of a GID from this end.
func (e *end) to(gid verbs.GID) verbs.AHAttr {
	return verbs.AHAttr{Global: true, Port: 1, GRH: verbs.GlobalRoute{DGID: gid, SGIDIndex: e.gidx, HopLimit: 64}}
}

func (e *end) psn() uint32 { return e.qp.Num()*977 + 5&0xffffff }

// route is a Host with two ends of its network, which may be equal.
type route struct {
	h    *verbs.Host
	fake *uverbstest.Kernel // nil for the real kernel and for the software ConnectXs
	mlx5 bool
	a, b vmtest.Host
}

// pair returns two connected ends.
func (rt *route) pair(t testing.TB, cap verbs.QPCap) (*end, *end) {
	t.Helper()
	l, r := newEnd(t, rt.h, rt.a, cap), newEnd(t, rt.h, rt.b, cap)
	connect(t, l, r)
	return l, r
}

// fakeRoute returns a Host with two devices that exist only in memory.
func fakeRoute() *route {
	k := uverbstest.New("rxe0", "rxe1")
	return &route{
		h:    &verbs.Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: k},
		fake: k,
		a:    vmtest.Host{Device: "rxe0", IPv4: netip.MustParseAddr("10.0.0.1")},
		b:    vmtest.Host{Device: "rxe1", IPv4: netip.MustParseAddr("10.0.0.2")},
	}
}

// mlx5Route returns a Host with two strict software ConnectXs.
func mlx5Route(t testing.TB) *route { return tracedRoute(t, nil) }

// tracedRoute is mlx5Route with a trace of the devices' actions.
func tracedRoute(t testing.TB, trace func(connectx.Record)) *route {
	k := inprocess.New(inprocess.Config{Violation: inprocess.Fail(t), Trace: trace}, "mlx5_0", "mlx5_1")
	return &route{
		h:    &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k},
		mlx5: true,
		a:    vmtest.Host{Device: "mlx5_0", IPv4: netip.MustParseAddr("10.0.0.1")},
		b:    vmtest.Host{Device: "mlx5_1", IPv4: netip.MustParseAddr("10.0.0.2")},
	}
}

// routes runs a test with the fake kernels. In the VM, it runs the test within one device and
// across two devices. Tests that need no real device are not repeated in the VM, which is slow.
func routes(t *testing.T, f func(t *testing.T, rt *route)) {
	if !vmtest.Inside() {
		t.Run("fake", func(t *testing.T) { f(t, fakeRoute()) })
	}
	fullRoutes(t, f)
}

// fullRoutes is routes without the fake kernel that supports only reliable connections.
func fullRoutes(t *testing.T, f func(t *testing.T, rt *route)) {
	if vmtest.Inside() {
		vmRoutes(t, f)
	} else {
		mlx5Routes(t, f)
	}
}

// mlx5Routes runs a test only with the software ConnectXs, for features that no device in the
// VM has.
func mlx5Routes(t *testing.T, f func(t *testing.T, rt *route)) {
	t.Run("mlx5", func(t *testing.T) { f(t, mlx5Route(t)) })
}

// vmRoutes is routes without the fake kernels.
func vmRoutes(t *testing.T, f func(t *testing.T, rt *route)) {
	hosts := vmtest.Hosts(t, 2)
	t.Run("loopback", func(t *testing.T) { f(t, &route{h: verbs.DefaultHost(), a: hosts[0], b: hosts[0]}) })
	t.Run("wire", func(t *testing.T) { f(t, &route{h: verbs.DefaultHost(), a: hosts[0], b: hosts[1]}) })
}

// vmWire returns the last route of vmRoutes, which has two devices.
func vmWire(t *testing.T) *route {
	hosts := vmtest.Hosts(t, 2)
	return &route{h: verbs.DefaultHost(), a: hosts[0], b: hosts[1]}
}

// collect waits for n completions and returns them by ID.
func (e *end) collect(t testing.TB, n int) map[uint64]verbs.WC {
	t.Helper()
	ctx := deadline(t)
	got := make(map[uint64]verbs.WC)
	wcs := make([]verbs.WC, 4)
	for len(got) < n {
		k, err := e.cq.Wait(ctx, wcs)
		if err != nil {
			t.Fatalf("CQ.Wait after %d of %d completions: %v", len(got), n, err)
		}
		for _, wc := range wcs[:k] {
			if _, dup := got[wc.ID]; dup {
				t.Fatalf("work request %d completed twice", wc.ID)
			}
			got[wc.ID] = wc
		}
	}
	return got
}

// ok collects n successful completions.
func (e *end) ok(t testing.TB, n int) map[uint64]verbs.WC {
	t.Helper()
	got := e.collect(t, n)
	for _, wc := range got {
		if err := wc.Err(); err != nil {
			t.Fatalf("completion failed: %v", err)
		}
	}
	return got
}

// written waits until a WRITE has completed and its data is in the peer's memory. On iWARP a WRITE completes when it
// is sent, and a later READ of the same QP follows it. The READ uses the end of e.buf.
func (e *end) written(t testing.TB, mr *verbs.MR) {
	t.Helper()
	e.ok(t, 1)
	const n = 64
	e.send(t, verbs.SendWR{ID: 99, Opcode: verbs.OpRead, Flags: verbs.SendSignaled, RemoteAddr: mr.Addr(), RKey: mr.RKey(), SGList: []verbs.SGE{e.buf.Slice(e.buf.Len()-n, n)}})
	e.ok(t, 1)
}

func (e *end) recv(t testing.TB, wrs ...verbs.RecvWR) {
	t.Helper()
	if n, err := e.qp.PostRecv(wrs); n != len(wrs) || err != nil {
		t.Fatalf("QP.PostRecv = %d, %v, want %d, nil", n, err, len(wrs))
	}
}

func (e *end) send(t testing.TB, wrs ...verbs.SendWR) {
	t.Helper()
	if n, err := e.qp.PostSend(wrs); n != len(wrs) || err != nil {
		t.Fatalf("QP.PostSend = %d, %v, want %d, nil", n, err, len(wrs))
	}
}
