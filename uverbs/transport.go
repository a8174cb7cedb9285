// SPDX-License-Identifier: Apache-2.0

package uverbs

import "net/netip"

// Kernel provides devices. It is [System], the running kernel, or a fake one in a test.
type Kernel interface {
	// Devices lists the RDMA devices.
	Devices() ([]DeviceInfo, error)
	// Open opens the verbs character device of one of them.
	Open(DeviceInfo) (Transport, error)
}

// Interfaces is an optional method of a fake [Kernel]. It returns the network interfaces that the
// ports belong to, in place of the process's interfaces.
type Interfaces interface {
	Interfaces() ([]Interface, error)
}

// PortCounters is an optional method of a [Kernel]. System has it.
type PortCounters interface {
	// PortCounters returns the counters of a port, by the names of the driver.
	PortCounters(d DeviceInfo, port int) (map[string]uint64, error)
}

// Interface is a network interface, which GIDs name by its index.
type Interface struct {
	Index int
	Name  string
	Addrs []netip.Addr // no IPv4 mapped in IPv6
}

// Transport is one open verbs character device. Its methods may be called concurrently. After Close
// they return net.ErrClosed. The exceptions are Munmap and Replace, which still work on existing
// mappings.
type Transport interface {
	// Ioctl executes one request and fills its outputs, which are zeros before. Outputs that the
	// kernel does not fill stay zeros. It must not keep the request. The error is the bare errno.
	Ioctl(*Request) error
	// Write sends one command in the form of rdma/ib_user_verbs.h, with its header. It must not
	// keep cmd. The error is the bare errno.
	Write(cmd []byte) error
	// Mmap maps length bytes of the device, shared, for reading and writing.
	Mmap(offset int64, length int) ([]byte, error)
	// Replace puts zeroed memory of the process in the place of a mapping, in one step. A
	// concurrent read of the mapping returns the old bytes or zeros. The mapping no longer holds
	// the device open.
	Replace(mapping []byte) error
	// Munmap ends a mapping, replaced or not.
	Munmap(mapping []byte) error
	// Close closes the device, and with it the context and all its objects. It
	// returns when all calls in progress have.
	Close() error
}

// ReadOnlyMapper is an optional method of a [Transport], for memory whose driver refuses mappings for writing.
// Without it, File.MmapReadOnly uses Mmap.
type ReadOnlyMapper interface {
	// MmapReadOnly maps length bytes of the device, shared, for reading.
	MmapReadOnly(offset int64, length int) ([]byte, error)
}

// Request is one command of RDMA_VERBS_IOCTL: a method of an object with
// attributes.
type Request struct {
	Object uint16 // UVERBS_OBJECT_...
	Method uint16 // UVERBS_METHOD_...
	Attrs  []Attr
}

// AttrKind is the way in which an attribute carries its value.
type AttrKind uint8

// Kinds of attributes.
const (
	AttrIn        AttrKind = iota // Buf is read.
	AttrOut                       // Buf is written
	AttrHandle                    // Value is the handle of an object
	AttrNewHandle                 // Value becomes the handle of a new object
	AttrFD                        // Value is a file descriptor
	AttrNewFD                     // Value becomes a new file descriptor
)

// Attr is one attribute of a Request.
type Attr struct {
	ID    uint16 // UVERBS_ATTR_...
	Kind  AttrKind
	Elem  uint8 // which of several forms an input has, where it has several
	Buf   []byte
	Value uint64
}

// Find returns the attribute with an id, or nil.
func (r *Request) Find(id uint16) *Attr {
	for i := range r.Attrs {
		if r.Attrs[i].ID == id {
			return &r.Attrs[i]
		}
	}
	return nil
}
