// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// wrongKey is remote memory that is not registered.
var wrongKey = verbs.RemoteMemory{Addr: 0x1000, Length: 1 << 20, RKey: 0xdead}

// rig holds a listener and the channels of both sides. The tests handle the events one by one,
// as with librdmacm.
type rig struct {
	t        *testing.T
	hosts    []vmtest.Host
	config   cm.IDConfig
	server   *cm.EventChannel
	client   *cm.EventChannel
	listener *cm.ID
}

func newRig(t *testing.T) *rig {
	t.Helper()
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	return rigOn(t, hosts[0], hosts[1], cm.IDConfig{})
}

// rigOn returns a rig on two hosts, which may be the same one, with the given configuration of
// IDs.
func rigOn(t *testing.T, server, client vmtest.Host, config cm.IDConfig) *rig {
	t.Helper()
	r := &rig{t: t, hosts: []vmtest.Host{server, client}, config: config, server: channel(t), client: channel(t)}
	r.listener = r.newID(r.server)
	r.ok(r.listener.Bind(cm.AddrFrom(netip.AddrPortFrom(server.IPv4, 0))))
	r.ok(r.listener.Listen(0))
	return r
}

func (r *rig) close() {
	r.client.Close()
	r.server.Close()
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("unexpected error: %v", err)
	}
}

func (r *rig) newID(ch *cm.EventChannel) *cm.ID {
	r.t.Helper()
	id, err := ch.NewID(r.config)
	r.ok(err)
	r.t.Cleanup(func() { id.Close() })
	return id
}

// want waits for an event of an ID, acknowledges it, and checks its status.
func (r *rig) want(ch *cm.EventChannel, id *cm.ID, typ cm.EventType, status int) *cm.Event {
	r.t.Helper()
	ev := expect(r.t, ch, typ)
	ev.Ack()
	if ev.ID != id || ev.Status != status {
		r.t.Fatalf("Next() = %v, want status %d of %v", ev, status, id)
	}
	return ev
}

// lostRejection reports whether an event is erdma's report of a rejection without private data. If the driver
// finds the end of the TCP connection with it, it reports an invalid answer (docs/reference/driver-faults.md).
func lostRejection(ev *cm.Event) bool {
	return vmtest.Driver() == "erdma" && ev.Type == cm.EventConnectError && ev.Status == -int(syscall.EINVAL)
}

// isLostRejection is lostRejection for the error of a blocking call.
func isLostRejection(err error) bool {
	return vmtest.Driver() == "erdma" && errors.Is(err, syscall.EINVAL)
}

// quiet checks that no event comes for a time.
func (r *rig) quiet(ch *cm.EventChannel, d time.Duration) {
	r.t.Helper()
	if ev, err := ch.Next(within(r.t, d)); err == nil {
		r.t.Fatalf("Next() = %v (%v), want no event", ev, ev.Err())
	}
}

// resolved returns an ID that is ready to connect to the listener.
func (r *rig) resolved() *cm.ID { return r.resolvedTo(r.listener.LocalAddr(), nil) }

// resolvedTo is resolved for another address. It calls prepare between the two resolutions.
func (r *rig) resolvedTo(dst cm.Addr, prepare func(*cm.ID)) *cm.ID {
	r.t.Helper()
	id := r.newID(r.client)
	src := cm.AddrFrom(netip.AddrPortFrom(r.hosts[1].IPv4, 0))
	r.ok(id.ResolveAddr(src, dst, 2*time.Second))
	r.want(r.client, id, cm.EventAddrResolved, 0)
	if prepare != nil {
		prepare(id)
	}
	r.ok(id.ResolveRoute(2 * time.Second))
	r.want(r.client, id, cm.EventRouteResolved, 0)
	return id
}

func (r *rig) withQP(id *cm.ID) *cm.ID {
	r.t.Helper()
	r.ok(id.CreateQP(nil, verbs.QPConfig{}))
	return id
}

// queued connects an ID, and returns when the request is in the listener's queue. The kernel
// has then made an ID for it.
func (r *rig) queued(id *cm.ID) {
	r.t.Helper()
	before := r.hosts[0].CMIDs(r.t)
	r.ok(id.Connect(nil))
	for limit := within(r.t, 10*time.Second); r.hosts[0].CMIDs(r.t) == before; time.Sleep(time.Millisecond) {
		if limit.Err() != nil {
			r.t.Fatal("the request did not arrive within 10 seconds")
		}
	}
}

// requested connects an ID and returns the ID of the connect request.
func (r *rig) requested(id *cm.ID, param *cm.ConnParam) *cm.ID {
	r.t.Helper()
	r.ok(id.Connect(param))
	ev := expect(r.t, r.server, cm.EventConnectRequest)
	ev.Ack()
	if ev.Listener != r.listener || ev.Status != 0 {
		r.t.Fatalf("CONNECT_REQUEST = %v of %v, want one of %v", ev, ev.Listener, r.listener)
	}
	r.t.Cleanup(func() { ev.ID.Close() })
	return ev.ID
}

// connected returns both sides of a connection.
func (r *rig) connected() (server, client *cm.ID) {
	r.t.Helper()
	client = r.withQP(r.resolved())
	server = r.withQP(r.requested(client, nil))
	r.ok(server.Accept(nil))
	r.want(r.client, client, cm.EventEstablished, 0)
	r.want(r.server, server, cm.EventEstablished, 0)
	return server, client
}

// exchange sends a message from one ID's QP to the other's.
func (r *rig) exchange(from, to *cm.ID) {
	r.t.Helper()
	in, out := alloc(r.t, to.QP().PD(), 4096), alloc(r.t, from.QP().PD(), 4096)
	receive(r.t, to.QP(), in)
	n := copy(out.Bytes(), "over the connection")
	wr := verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{out.Slice(0, n)}}
	if _, err := from.QP().PostSend([]verbs.SendWR{wr}); err != nil {
		r.t.Fatalf("PostSend: %v", err)
	}
	completion(r.t, from.QP().SendCQ())
	if wc := completion(r.t, to.QP().RecvCQ()); string(in.Bytes()[:wc.ByteLen]) != "over the connection" {
		r.t.Fatalf("received %q, want \"over the connection\"", in.Bytes()[:wc.ByteLen])
	}
}
