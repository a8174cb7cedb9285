// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"purerdma/abi"
	"purerdma/internal/leak"
	"purerdma/internal/netns"
	"purerdma/ucma"
	"purerdma/verbs"
)

// closeGrace is how long Close waits for the kernel. InfiniBand and RoCE need
// microseconds; an iWARP driver may hold DESTROY_ID for ten seconds, which then
// goes on in the background.
const closeGrace = time.Second

// ID is a communication identifier, the RDMA counterpart of a socket
// (struct rdma_cm_id, rdma_create_id(3)). Its outcomes are events of its
// EventChannel.
//
// All methods may be called concurrently; the kernel runs the commands of one ID
// one after the other. After Close they return net.ErrClosed.
type ID struct {
	// Context is the user's; the library does not look at it.
	Context any

	kid    uint32 // the kernel's number
	uid    uint64 // ours, in every event
	ps     PortSpace
	qpType verbs.QPType
	gate   gate
	leak   *leak.Entry

	netNS string // "" for that of the process

	leaving atomic.Bool // this side has disconnected, and was first

	moving sync.RWMutex // write: Migrate; read: a command

	// attaching is held while the QP is attached to a multicast group or detached;
	// mu is taken after it.
	attaching sync.Mutex

	mu       sync.Mutex
	ch       *EventChannel
	left     []*EventChannel // where it was before
	state    State
	local    Addr
	remote   Addr
	dev      *verbs.Device
	port     uint8
	qp       *verbs.QP
	srq      *verbs.SRQ
	ownQP    bool       // CreateQP made it: it ends with the ID
	blocking bool       // its events are an endpoint's, who wants to know why a QP was flushed
	request  *ConnParam // what the peer asked for, on the accepting side
	groups   []*Multicast
	acks     acks // of all events, those of memberships included

	localECE, remoteECE ECE
}

func newID(ch *EventChannel, kid uint32, ps PortSpace, qpType verbs.QPType) *ID {
	id := &ID{ch: ch, kid: kid, uid: lastUID.Add(1), ps: ps, qpType: qpType}
	id.leak = leak.TrackNamed("CM ID", id)
	return id
}

// IDConfig says how to make an ID.
type IDConfig struct {
	PortSpace PortSpace
	// QPType is the type of the ID's QP. 0 means that of the port space: UD for
	// PortSpaceUDP and PortSpaceIPoIB, which have no other, else RC. For
	// PortSpaceTCP it must be a type that connects.
	QPType verbs.QPType
	// NetNS is the network namespace that the ID's addresses belong to: the path
	// of its file, as "/proc/42/ns/net", or its name in ip-netns(8). "" is that of
	// the thread that calls NewIDConfig. It takes CAP_SYS_ADMIN.
	NetNS string
}

// NewID makes an ID (rdma_create_id(3)). It belongs to the network namespace of
// the calling thread.
func (ch *EventChannel) NewID(ps PortSpace) (*ID, error) {
	return ch.NewIDConfig(IDConfig{PortSpace: ps})
}

// NewIDConfig is NewID with options.
func (ch *EventChannel) NewIDConfig(cfg IDConfig) (*ID, error) {
	qpType := cmp.Or(cfg.QPType, cfg.PortSpace.qpType())
	if err := cfg.PortSpace.check(qpType); err != nil {
		return nil, &OpError{Op: opOpen, Err: err}
	}
	id := newID(ch, 0, cfg.PortSpace, qpType)
	id.netNS = cfg.NetNS
	var err error
	// First the number, then the channel may know the ID: Close destroys what
	// it knows, and 0 is somebody's number.
	err = netns.Do(cfg.NetNS, func() (err error) {
		id.kid, err = ch.file.Quick().CreateID(id.uid, uint16(id.ps), uint8(id.qpType))
		return err
	})
	if err == nil {
		if err = ch.addAs(id.uid, id); err != nil {
			ch.file.DestroyID(id.kid)
		}
	}
	if err != nil {
		id.leak.Done()
		return nil, &OpError{Op: opOpen, Err: fmt.Errorf("%v, %v: %w", id.ps, id.qpType, err)}
	}
	return id, nil
}

// Channel returns the channel that the ID's events come to.
func (id *ID) Channel() *EventChannel {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.ch
}

// PortSpace returns what the ID's ports mean.
func (id *ID) PortSpace() PortSpace { return id.ps }

// QPType returns the type of the ID's QP.
func (id *ID) QPType() verbs.QPType { return id.qpType }

// datagram says whether the ID is for datagrams, which need no connection.
func (id *ID) datagram() bool { return id.qpType == verbs.UD }

// kind returns what events mean to the ID. The caller holds id.mu.
func (id *ID) kind() kind {
	switch {
	case id.datagram():
		return kindDatagram
	case id.qp != nil:
		return kindQP
	}
	return kindPlain
}

// State returns how far the ID has come.
func (id *ID) State() State {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.state
}

// Device returns the device that the ID is bound to, nil while there is none. It
// belongs to the ID: it is released when the ID is closed.
func (id *ID) Device() *verbs.Device {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.dev
}

// Port returns the device's port, from 1 up, 0 while there is none.
func (id *ID) Port() uint8 {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.port
}

// QP returns the ID's QP, nil if it has none.
func (id *ID) QP() *verbs.QP {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.qp
}

// LocalAddr returns the ID's own address, zero while it has none.
func (id *ID) LocalAddr() Addr {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.local
}

// RemoteAddr returns the peer's address, zero while there is none.
func (id *ID) RemoteAddr() Addr {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.remote
}

// String names the ID by its number in this process, and by that of the kernel,
// which the trace shows.
func (id *ID) String() string { return fmt.Sprintf("cm_id %d (kernel ID %d)", id.uid, id.kid) }

// Migrate moves the ID and its unfetched events to another channel
// (rdma_migrate_id(3)). It waits for a command of the ID that is in the kernel.
// Unlike rdma_migrate_id(3) it does not wait for events to be acknowledged: one
// that was fetched before may be dealt with after it. Who waits in Next of the
// other channel gets the events that have moved.
//
// Do not migrate a listener that may have unfetched connect requests: the kernel
// leaves their new IDs behind.
func (id *ID) Migrate(to *EventChannel) error {
	if !id.gate.enter() {
		return id.opError(opMigrate, net.ErrClosed)
	}
	defer id.gate.leave()
	id.moving.Lock()
	defer id.moving.Unlock()
	from := id.Channel()
	if from == to {
		return nil
	}
	// Known to both sides from now on: an event may have been fetched from the
	// old one already.
	id.mu.Lock()
	uids := []uint64{id.uid}
	for _, m := range id.groups {
		uids = append(uids, m.uid)
	}
	id.mu.Unlock()
	for _, uid := range uids {
		if err := to.addAs(uid, id); err != nil {
			return id.opError(opMigrate, err)
		}
	}
	if _, err := to.file.MigrateID(id.kid, from.file); err != nil {
		for _, uid := range uids {
			to.remove(uid)
		}
		return id.opError(opMigrate, err)
	}
	id.mu.Lock()
	id.ch, id.left = to, append(id.left, from)
	id.mu.Unlock()
	to.file.Wake() // the kernel tells nobody of events that have come with an ID
	return nil
}

// Close destroys the ID in whatever state it is: a connection ends, a request is
// refused, a listener stops (rdma_destroy_id(3)). It does not wait for events to
// be acknowledged. A QP made by CreateQP is destroyed with it, one that was
// attached by UseQP is moved to the error state. It may be called more than once.
func (id *ID) Close() error {
	if first, empty := id.gate.shut(); first {
		id.leak.Done()
		if id.closesAtOnce(empty) {
			id.release()
			return nil
		}
		within(closeGrace, func() {
			<-empty
			id.release()
		})
	}
	return nil
}

// closeOn is Close of an ID that is on ch, and waits as long as it takes: for a
// Migrate that has begun, too.
func (id *ID) closeOn(ch *EventChannel) {
	id.moving.RLock()
	if id.Channel() != ch {
		id.moving.RUnlock()
		return
	}
	first, empty := id.gate.shut()
	id.moving.RUnlock()
	if first {
		id.leak.Done()
		<-empty
		id.release()
	}
}

// within runs fn in a goroutine of its own, and waits for it for d at most.
func within(d time.Duration, fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	grace := time.NewTimer(d)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
	}
}

// closesAtOnce reports whether release will not have to wait, so that Close needs
// no goroutine to wait with: none of the ID's commands is in the kernel, DESTROY_ID
// does not wait for the peer as on iWARP, and there is no QP that has to be moved or
// destroyed, which may be in use: what changes one waits for its Close, and that for
// a Batch.
func (id *ID) closesAtOnce(empty <-chan struct{}) bool {
	select {
	case <-empty:
	default:
		return false
	}
	idle := id.qp == nil || !id.ownQP && id.qp.State() == verbs.QPErr
	return idle && id.srq == nil && id.transport() == verbs.TransportIB
}

// release gives up everything that the ID has. Nobody else uses it any more.
func (id *ID) release() {
	ch := id.Channel()
	for _, c := range append(id.left, ch) {
		c.remove(id.uid)
	}
	id.mu.Lock()
	groups := slices.Clone(id.groups) // who leaves one now changes the list
	id.mu.Unlock()
	for _, m := range groups {
		m.forget()
		// A QP that is attached is not destroyed. If the detaching fails, so
		// will that: it has no one to tell.
		_ = m.detach()
	}
	switch {
	case id.ownQP:
		// First the QP, then the ID: while the ID stands the kernel does not
		// give its QP number to a new connection.
		id.qp.Close()
	case id.qp != nil:
		flushQP(id.qp)
	}
	if id.srq != nil {
		id.srq.Close()
	}
	id.quick(ch.file).DestroyID(id.kid)
	if id.dev != nil {
		id.dev.Close()
	}
}

// Destroy is Close that waits, as rdma_destroy_id(3) does, until every event of
// the ID and of its memberships that was delivered has been acknowledged. The ID is gone at once in any
// case; if ctx ends first, the error names an event that is held.
func (id *ID) Destroy(ctx context.Context) error {
	id.Close()
	return id.waitAcked(ctx, opDestroy, &id.acks)
}

// command runs one command of the kernel on the ID.
func (id *ID) command(op string, fn func(f *ucma.File, kid uint32) error) error {
	if !id.gate.enter() {
		return id.opError(op, net.ErrClosed)
	}
	defer id.gate.leave()
	id.moving.RLock()
	defer id.moving.RUnlock()
	id.mu.Lock()
	was, file := id.state, id.ch.file
	id.mu.Unlock()
	if was == StateRemoved {
		// The kernel says so itself, but for a moment some drivers still do as told.
		return id.opError(op, syscall.ENXIO)
	}
	if err := fn(file, id.kid); err != nil {
		return id.opError(op, misuse(op, was, err))
	}
	return nil
}

// commandIn is command for one that takes the ID into a new state; if it fails
// the state is again what it was. The state changes first because the event that
// ends it may be fetched before the command returns.
func (id *ID) commandIn(op string, state State, fn func(f *ucma.File, kid uint32) error) error {
	return id.command(op, func(f *ucma.File, kid uint32) error {
		id.mu.Lock()
		before := id.state
		id.state = state
		id.mu.Unlock()
		err := fn(f, kid)
		if err != nil {
			id.mu.Lock()
			if id.state == state {
				id.state = before
			}
			id.mu.Unlock()
		}
		return err
	})
}

// swapState takes the ID from one state to another, and returns the one that it was
// in: if that is not from, nothing has changed.
func (id *ID) swapState(from, to State) (was State) {
	id.mu.Lock()
	defer id.mu.Unlock()
	was = id.state
	if was == from {
		id.state = to
	}
	return was
}

// opError gives an error the operation and the addresses. An ID whose device is
// gone answers ENXIO to everything.
func (id *ID) opError(op string, err error) error {
	if errors.Is(err, syscall.ENXIO) {
		err = id.removedError()
	}
	return &OpError{Op: op, Local: id.LocalAddr(), Remote: id.RemoteAddr(), Err: err}
}

// quick returns f for commands that make a connection or end it: they are
// computation where the device is software that waits for no peer. Hardware may
// be asked in them, and on iWARP the peer.
func (id *ID) quick(f *ucma.File) *ucma.File {
	if dev := id.Device(); dev != nil && dev.DriverID() == abi.RDMA_DRIVER_RXE {
		return f.Quick()
	}
	return f
}

func (id *ID) transport() verbs.Transport {
	if dev := id.Device(); dev != nil {
		return dev.Transport()
	}
	return verbs.TransportIB
}

// bindDevice asks the kernel for the ID's addresses and device, and opens the
// device.
func (id *ID) bindDevice() error {
	return id.command(opQuery, func(f *ucma.File, kid uint32) error {
		resp, err := f.Quick().QueryAddr(kid)
		if err != nil {
			return err
		}
		var dev *verbs.Device
		if resp.PortNum != 0 {
			// The kernel hands the GUID over in network byte order.
			var guid [8]byte
			binary.NativeEndian.PutUint64(guid[:], resp.NodeGUID)
			dev, err = id.Channel().host.OpenIndex(int(resp.IBDevIndex), binary.BigEndian.Uint64(guid[:]))
		}
		id.mu.Lock()
		defer id.mu.Unlock()
		id.setAddrs(resp)
		id.dev, dev = dev, id.dev
		if dev != nil {
			dev.Close()
		}
		return err
	})
}

// queryAddrs notes the ID's addresses.
func (id *ID) queryAddrs() error {
	return id.command(opQuery, func(f *ucma.File, kid uint32) error {
		resp, err := f.Quick().QueryAddr(kid)
		if err != nil {
			return err
		}
		id.mu.Lock()
		defer id.mu.Unlock()
		id.setAddrs(resp)
		return nil
	})
}

func (id *ID) setAddrs(resp *abi.UcmQueryAddrResp) {
	id.local = addrFromKernel(&resp.SrcAddr)
	if id.remote = addrFromKernel(&resp.DstAddr); id.remote.Addr().IsUnspecified() {
		id.remote = Addr{} // the kernel's way to say that there is none
	}
	id.port = resp.PortNum
}
