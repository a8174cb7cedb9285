// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"context"
	"errors"
	"net"
	"sync"

	"purerdma/abi"
	"purerdma/internal/enum"
	"purerdma/internal/leak"
)

// Event is a change of a device (RDMA_NLDEV_CMD_MONITOR).
type Event struct {
	Attributes
	Type       EventType
	Device     uint32 // index
	DeviceName string
	Port       uint32 // of the network interface
	Ifindex    uint32 // of the network interface, 0 if it has none in this network namespace
	Interface  string
}

// EventType is the kind of an Event (enum rdma_nl_notify_event_type of the kernel).
type EventType uint8

// Kinds of events.
const (
	EventRegister     EventType = abi.RDMA_REGISTER_EVENT      // a device was added
	EventUnregister   EventType = abi.RDMA_UNREGISTER_EVENT    // a device was removed
	EventNetDevAttach EventType = abi.RDMA_NETDEV_ATTACH_EVENT // a port got a network interface
	EventNetDevDetach EventType = abi.RDMA_NETDEV_DETACH_EVENT // a port lost its network interface
	EventRename       EventType = abi.RDMA_RENAME_EVENT        // a device was renamed (Linux 6.14)
	EventNetDevRename EventType = abi.RDMA_NETDEV_RENAME_EVENT // a network interface was renamed (Linux 6.14)
)

// String returns the name of the kind, as "REGISTER".
func (t EventType) String() string {
	return enum.Name(t, "EventType", []string{"REGISTER", "UNREGISTER", "NETDEV_ATTACH", "NETDEV_DETACH", "RENAME", "NETDEV_RENAME"})
}

// Monitor is a socket that receives the events of devices (RDMA_NL_GROUP_NOTIFY, Linux 6.12). The
// kernel has no events of QPs, connections and other resources.
//
// Subscribe first and list the devices then, so that no change is missed. A Monitor is safe for
// concurrent use. Each event goes to one Receive.
type Monitor struct {
	results chan result
	closed  chan struct{}
	once    sync.Once
	socket  eventSocket
	leak    *leak.Entry
}

// result is an event or an error.
type result struct {
	event Event
	err   error
}

// eventSocket receives messages.
type eventSocket interface {
	// receive waits for messages, and returns an error after close.
	receive() ([]value, error)
	close()
}

// Subscribe opens a socket for events in the network namespace of the calling thread. It returns
// errors.ErrUnsupported if the kernel has no events. Programs for older kernels compare the lists of
// devices and ports periodically.
func Subscribe() (*Monitor, error) {
	const op = "subscribe to RDMA events"
	c, err := Dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	s, err := c.System()
	if err != nil {
		return nil, err
	}
	if !s.Monitor {
		return nil, &OpError{Op: op, Err: errors.ErrUnsupported}
	}
	socket, err := subscribe()
	if err != nil {
		return nil, &OpError{Op: op, Err: err}
	}
	return newMonitor(socket), nil
}

func newMonitor(s eventSocket) *Monitor {
	m := &Monitor{results: make(chan result), closed: make(chan struct{}), socket: s, leak: leak.Track("rdmanl.Monitor", "NETLINK_RDMA")}
	go m.run()
	return m
}

// run receives until Close.
func (m *Monitor) run() {
	for {
		msgs, err := m.socket.receive()
		if err != nil && !m.deliver(result{err: &OpError{Op: "receive RDMA event", Err: err}}) {
			return
		}
		for _, msg := range msgs {
			if e, ok := parseEvent(msg); ok && !m.deliver(result{event: e}) {
				return
			}
		}
	}
}

// deliver waits for a Receive. It returns false after Close.
func (m *Monitor) deliver(r result) bool {
	select {
	case m.results <- r:
		return true
	case <-m.closed:
		return false
	}
}

// Receive waits for the next event. After the error ENOBUFS events are lost, because the program did
// not receive them fast enough. The program should then list the devices again, and may call Receive
// again. After Close, Receive returns net.ErrClosed.
func (m *Monitor) Receive(ctx context.Context) (Event, error) {
	select {
	case <-m.closed:
		return Event{}, net.ErrClosed
	default:
	}
	select {
	case r := <-m.results:
		return r.event, r.err
	case <-m.closed:
		return Event{}, net.ErrClosed
	case <-ctx.Done():
		return Event{}, context.Cause(ctx)
	}
}

// Close closes the socket. It always returns nil, and may be called more than once.
func (m *Monitor) Close() error {
	m.once.Do(func() {
		close(m.closed)
		m.socket.close()
		m.leak.Done()
	})
	return nil
}

func parseEvent(m value) (e Event, ok bool) {
	for attr, v := range m.attributes() {
		e.add(attr)
		switch attr {
		case abi.RDMA_NLDEV_ATTR_EVENT_TYPE:
			e.Type, ok = EventType(v.u8()), true
		case abi.RDMA_NLDEV_ATTR_DEV_INDEX:
			e.Device = v.u32()
		case abi.RDMA_NLDEV_ATTR_DEV_NAME:
			e.DeviceName = v.text()
		case abi.RDMA_NLDEV_ATTR_PORT_INDEX:
			e.Port = v.u32()
		case abi.RDMA_NLDEV_ATTR_NDEV_INDEX:
			e.Ifindex = v.u32()
		case abi.RDMA_NLDEV_ATTR_NDEV_NAME:
			e.Interface = v.text()
		}
	}
	return e, ok
}
