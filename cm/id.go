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

// ID is a communication identifier, the RDMA counterpart of a socket
// (struct rdma_cm_id, rdma_create_id(3)). Its outcomes are events of its
// EventChannel.
//
// All methods may be called concurrently; the kernel runs the commands of one ID
// one after the other. After Close they return net.ErrClosed.
type ID struct {
	uid    uint64 // ours, in every event
	kid    uint32 // the kernel's number
	ps     PortSpace
	qpType verbs.QPType
	gate   gate
	leak   *leak.Entry
	close  closing

	netNS   string // "" for that of the process
	passive bool   // the ID came with a connect request

	leaving atomic.Bool // this side has disconnected, and was first
	noReads atomic.Bool // the QP may have no READs under way

	// expired is set when the HandshakeTimeout closes the ID, and ended when the program does.
	// The memory of alloc stays in place while only expired is set: the program does not know
	// yet that the ID was closed.
	expired, ended atomic.Bool

	moving sync.RWMutex // write: Migrate; read: a command

	// attaching is held while the QP is attached to a multicast group or detached;
	// mu is taken after it.
	attaching sync.Mutex

	mu        sync.Mutex
	ch        *EventChannel
	left      []*EventChannel // where it was before
	state     State           // without what commands that run may change: see current
	port      uint8
	requested depths               // of the connect request, on the accepting side
	ownQP     bool                 // CreateQP made it: it ends with the ID
	blocking  bool                 // an endpoint handles its events, and needs the reason why a QP was flushed
	pending   []*pendingTransition // commands that run, in the order in which they have begun
	local     Addr
	remote    Addr
	asked     route // of the last ResolveAddr
	dev       *verbs.Device
	qp        *verbs.QP
	srq       *verbs.SRQ

	pdOf    func(*verbs.Device) (*verbs.PD, error) // chooses the PD; nil: a new one
	pdMu    sync.Mutex                             // of the next two
	pd      *verbs.PD                              // what connPD returned, or nil
	ownPD   bool                                   // it ends with the ID
	buffers []*verbs.MR                            // of alloc
	groups  []*Multicast
	acks    acks // counts the events of the ID and of its memberships that were not acknowledged

	localECE, remoteECE verbs.ECE
}

// route is the two addresses that a way was asked for between.
type route struct{ from, to Addr }

func newID(ch *EventChannel, kid uint32, ps PortSpace, qpType verbs.QPType) *ID {
	id := &ID{ch: ch, kid: kid, uid: lastUID.Add(1), ps: ps, qpType: qpType}
	id.leak = leak.TrackNamed("CM ID", id)
	return id
}

// IDConfig holds the options of an ID. The zero IDConfig is one for reliable connections.
type IDConfig struct {
	PortSpace PortSpace // 0 means PortSpaceTCP
	// QPType is the type of the ID's QP. 0 means that of the port space: UD for
	// PortSpaceUDP and PortSpaceIPoIB, which have no other, else RC. For
	// PortSpaceTCP it must be a type that connects.
	QPType verbs.QPType
	// NetNS is the network namespace that the ID's addresses belong to: the path
	// of its file, as "/proc/42/ns/net", or its name in ip-netns(8). "" is that of
	// the thread that calls NewID. It takes CAP_SYS_ADMIN.
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
	// First the number, then the channel may know the ID: Close destroys what
	// it knows, and 0 is somebody's number.
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
	return id.current()
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
	for _, t := range slices.Backward(id.pending) {
		if t.to.IsValid() && !t.wrong {
			return t.to
		}
	}
	return id.remote
}

// String names the ID by its number in this process, and by that of the kernel,
// which the trace shows.
func (id *ID) String() string { return fmt.Sprintf("cm_id %d (kernel ID %d)", id.uid, id.kid) }
