// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"context"
	"strconv"

	"purerdma/abi"
	"purerdma/internal/cdev"
)

// AsyncChannel is the file of asynchronous events of a device, its ports and its objects. It must
// be closed before its File.
type AsyncChannel struct {
	f   *File
	dev *cdev.File
}

// AllocAsync makes a file of asynchronous events (UVERBS_METHOD_ASYNC_EVENT_ALLOC, Linux 5.6).
// Events of ports and of the device are sent to every such file. Events of an object are sent to
// the file that it was made with, or to the first file.
func (f *File) AllocAsync() (*AsyncChannel, error) {
	req, err := f.ioctl(abi.UVERBS_OBJECT_ASYNC_EVENT, abi.UVERBS_METHOD_ASYNC_EVENT_ALLOC,
		Attr{ID: abi.UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, Kind: AttrNewFD})
	if err != nil {
		return nil, err
	}
	dev, err := cdev.New(int(int32(req.Attrs[0].Value)), "asynchronous events of "+f.info.Name)
	if err != nil {
		return nil, err
	}
	c := &AsyncChannel{f: f, dev: dev}
	if err := f.adopt(c); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *AsyncChannel) file() *cdev.File { return c.dev }

// Next waits for one event until ctx ends. It may be called concurrently. After the device was
// removed it returns EIO, after Close net.ErrClosed.
func (c *AsyncChannel) Next(ctx context.Context) (AsyncEvent, error) {
	var desc abi.UverbsAsyncEventDesc
	if err := nextEvent(ctx, c.dev, abi.Bytes(&desc)); err != nil {
		return AsyncEvent{}, err
	}
	return asyncEvent(&desc), nil
}

// Close closes the file and ends its Next. It may be called more than once.
func (c *AsyncChannel) Close() error {
	c.f.abandon(c)
	return c.dev.Close()
}

// AsyncEvent is one asynchronous event (struct ibv_async_event of
// ibv_get_async_event(3)).
type AsyncEvent struct {
	Type    EventType
	Element uint64 // object, as described by Type.Element
}

func asyncEvent(d *abi.UverbsAsyncEventDesc) AsyncEvent {
	return AsyncEvent{Type: EventType(d.EventType), Element: d.Element}
}

// ElementKind is the kind of object that an asynchronous event is about.
type ElementKind uint8

// Kinds of elements. An object is named by the user handle that it was made with, a port by its
// number.
const (
	ElementUnknown ElementKind = iota
	ElementDevice              // Element is not used
	ElementPort
	ElementCQ
	ElementQP
	ElementSRQ
	ElementWQ
)

// EventType is the type of an asynchronous event. It is enum ib_event_type of the kernel and enum
// ibv_event_type of ibv_get_async_event(3).
type EventType uint32

// Types of asynchronous events.
const (
	EventCQErr EventType = iota
	EventQPFatal
	EventQPReqErr
	EventQPAccessErr
	EventCommEst
	EventSQDrained
	EventPathMig
	EventPathMigErr
	EventDeviceFatal
	EventPortActive
	EventPortErr
	EventLIDChange
	EventPKeyChange
	EventSMChange
	EventSRQErr
	EventSRQLimitReached
	EventQPLastWQEReached
	EventClientReregister
	EventGIDChange
	EventWQFatal
	EventDeviceSpeedChange
)

var eventTypes = [...]struct {
	name    string
	element ElementKind
}{
	EventCQErr:             {"CQ_ERR", ElementCQ},
	EventQPFatal:           {"QP_FATAL", ElementQP},
	EventQPReqErr:          {"QP_REQ_ERR", ElementQP},
	EventQPAccessErr:       {"QP_ACCESS_ERR", ElementQP},
	EventCommEst:           {"COMM_EST", ElementQP},
	EventSQDrained:         {"SQ_DRAINED", ElementQP},
	EventPathMig:           {"PATH_MIG", ElementQP},
	EventPathMigErr:        {"PATH_MIG_ERR", ElementQP},
	EventDeviceFatal:       {"DEVICE_FATAL", ElementDevice},
	EventPortActive:        {"PORT_ACTIVE", ElementPort},
	EventPortErr:           {"PORT_ERR", ElementPort},
	EventLIDChange:         {"LID_CHANGE", ElementPort},
	EventPKeyChange:        {"PKEY_CHANGE", ElementPort},
	EventSMChange:          {"SM_CHANGE", ElementPort},
	EventSRQErr:            {"SRQ_ERR", ElementSRQ},
	EventSRQLimitReached:   {"SRQ_LIMIT_REACHED", ElementSRQ},
	EventQPLastWQEReached:  {"QP_LAST_WQE_REACHED", ElementQP},
	EventClientReregister:  {"CLIENT_REREGISTER", ElementPort},
	EventGIDChange:         {"GID_CHANGE", ElementPort},
	EventWQFatal:           {"WQ_FATAL", ElementWQ},
	EventDeviceSpeedChange: {"DEVICE_SPEED_CHANGE", ElementDevice},
}

// String returns the name of the type, as "QP_FATAL". For an unknown type, it returns the number.
func (t EventType) String() string {
	if int64(t) < int64(len(eventTypes)) {
		return eventTypes[t].name
	}
	return "event " + strconv.FormatUint(uint64(t), 10)
}

// Element returns the kind of object that an event of this type is about.
func (t EventType) Element() ElementKind {
	if int64(t) < int64(len(eventTypes)) {
		return eventTypes[t].element
	}
	return ElementUnknown
}
