// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"purerdma/internal/leak"
	"purerdma/internal/netns"
	"purerdma/verbs"
)

// ID is a communication identifier, the RDMA counterpart of a socket (struct rdma_cm_id,
// rdma_create_id(3)). The outcomes of its calls are events of its EventChannel.
//
// All methods may be called concurrently. The kernel runs the commands of one ID one after the
// other. After Close the methods return net.ErrClosed.
type ID struct {
	uid    uint64 // the library's number, in every event
	kid    uint32 // the kernel's number
	ps     PortSpace
	qpType verbs.QPType
	gate   gate
	leak   *leak.Entry
	close  closing

	netNS   string // "" for the namespace of the calling thread.
	passive bool   // the ID came with a connect request
	ownPD   bool   // pd ends with the ID. Guarded by pdMu

	leaving atomic.Bool // this side has disconnected, and was first
	// readDepth is the number of READs and atomics that the QP may have in flight. It is
	// negative until it is known, and on iWARP if it is not 0.
	readDepth atomic.Int32

	// expired is set when the HandshakeTimeout closes the ID, and ended when the program does.
	// The memory of alloc stays in place while only expired is set, because the program is not
	// yet aware of the close.
	expired, ended atomic.Bool

	moving sync.RWMutex // Migrate write-locks it, a command read-locks it

	// attaching is held while the QP is attached to a multicast group or detached. mu is taken
	// after it.
	attaching sync.Mutex

	mu         sync.Mutex
	ch         *EventChannel
	left       []*EventChannel // the channels that it was on before.
	state      State           // without the effects of running commands: see current
	port       uint8
	requested  depths               // depths of the connect request, on the accepting side.
	ownQP      bool                 // CreateQP made the QP, which ends with the ID.
	nextRecord uint8                // number of the next element of records
	blocking   bool                 // an endpoint handles the events, and needs the reason for a QP's flush.
	pending    []*pendingTransition // running commands, in the order in which they started
	local      Addr
	remote     Addr
	asked      route // addresses of the last ResolveAddr
	dev        *verbs.Device
	qp         *verbs.QP
	srq        *verbs.SRQ

	pdOf func(*verbs.Device) (*verbs.PD, error) // chooses the PD, nil for a new one.
	// createQP makes the QP on that PD, nil for verbs.PD.CreateQP.
	createQP func(*verbs.PD, verbs.QPConfig) (*verbs.QP, error)
	pdMu     sync.Mutex  // guards pd and ownPD.
	pd       *verbs.PD   // the result of connPD, or nil.
	buffers  []*verbs.MR // memory of alloc.
	groups   []*Multicast
	acks     acks               // counts the events of the ID and of its memberships that were not acknowledged
	records  *[idRecords]record // the last calls and events, for History

	localECE, remoteECE verbs.ECE
}

// route holds the two addresses of a ResolveAddr.
type route struct{ from, to Addr }

func newID(ch *EventChannel, kid uint32, ps PortSpace, qpType verbs.QPType) *ID {
	id := &ID{ch: ch, kid: kid, uid: lastUID.Add(1), ps: ps, qpType: qpType}
	id.readDepth.Store(-1)
	id.leak = leak.TrackNamed("CM ID", id)
	return id
}

// IDConfig holds the options of an ID. The zero IDConfig is for reliable connections.
type IDConfig struct {
	PortSpace PortSpace // 0 means PortSpaceTCP
	// QPType is the type of the ID's QP. 0 means the type of the port space. That is UD for
	// PortSpaceUDP and PortSpaceIPoIB, which have no other type, and RC for the others. For
	// PortSpaceTCP it must be a type that connects.
	QPType verbs.QPType
	// NetNS is the network namespace that the ID's addresses belong to. It is the path of its
	// file, such as "/proc/42/ns/net", or its name in ip-netns(8). "" is the namespace of the
	// thread that calls NewID. Any other value requires CAP_SYS_ADMIN.
	NetNS string
}

// NewID makes an ID (rdma_create_id(3)).
func (ch *EventChannel) NewID(cfg IDConfig) (*ID, error) {
	cfg.PortSpace = cmp.Or(cfg.PortSpace, PortSpaceTCP)
	qpType := cmp.Or(cfg.QPType, cfg.PortSpace.qpType())
	if err := cfg.PortSpace.check(qpType); err != nil {
		return nil, &OpError{Op: opOpen, Err: err}
	}
	id := newID(ch, 0, cfg.PortSpace, qpType)
	id.netNS = cfg.NetNS
	var err error
	// The ID gets its kernel number before the channel lists it. Close destroys the listed IDs,
	// and 0 is the number of another ID.
	err = netns.Do(cfg.NetNS, func() (err error) {
		id.kid, err = ch.file.CreateID(id.uid, uint16(id.ps), uint8(id.qpType))
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

// Channel returns the channel that receives the ID's events.
func (id *ID) Channel() *EventChannel {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.ch
}

// PortSpace returns the port space of the ID.
func (id *ID) PortSpace() PortSpace { return id.ps }

// QPType returns the type of the ID's QP.
func (id *ID) QPType() verbs.QPType { return id.qpType }

// datagram reports whether the ID is for datagrams, which need no connection.
func (id *ID) datagram() bool { return id.qpType == verbs.UD }

// kind returns the kind of the ID, which determines the meaning of events. The caller holds
// id.mu.
func (id *ID) kind() kind {
	switch {
	case id.datagram():
		return kindDatagram
	case id.qp != nil:
		return kindQP
	}
	return kindPlain
}

// State returns the ID's state.
func (id *ID) State() State {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.current()
}

// Device returns the device that the ID is bound to, nil while there is none. The device
// belongs to the ID, and is released when the ID is closed.
func (id *ID) Device() *verbs.Device {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.dev
}

// Port returns the number of the device's port, which starts at 1, or 0 while there is none.
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
	for _, t := range slices.Backward(id.pending) {
		if t.to.IsValid() && !t.wrong {
			return t.to
		}
	}
	return id.remote
}

// String names the ID by its number in this process, and by its kernel number, which the trace
// shows.
func (id *ID) String() string { return fmt.Sprintf("cm_id %d (kernel ID %d)", id.uid, id.kid) }
