// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"

	"purerdma/provider"
	"purerdma/uverbs"
)

// The public surface, ahead of its implementation: every call fails with
// errors.ErrUnsupported until then.

// Host opens devices, each once per process, and shares them.
type Host struct {
	Drivers []provider.Driver
	Kernel  uverbs.Kernel
}

// DefaultHost returns the Host of this process with all drivers of this module.
func DefaultHost() *Host { return &Host{} }

// DeviceInfo is one device, not open.
type DeviceInfo = uverbs.DeviceInfo

// Devices lists the devices.
func (h *Host) Devices() ([]DeviceInfo, error) { return nil, errors.ErrUnsupported }

// Open opens a device by its name.
func (h *Host) Open(name string) (*Device, error) { return nil, errors.ErrUnsupported }

// OpenIndex opens a device by its index, or by its node GUID if index is < 0.
func (h *Host) OpenIndex(index int, guid uint64) (*Device, error) { return nil, errors.ErrUnsupported }

// Transport is the protocol family of a device.
type Transport uint8

// Transports.
const (
	TransportUnknown Transport = iota
	TransportIB
	TransportIWARP
)

// LinkLayer is the link of a port.
type LinkLayer uint8

// Link layers, with the kernel's numbers.
const (
	LinkUnspecified LinkLayer = iota
	LinkInfiniBand
	LinkEthernet
)

// DeviceAttr is what a device can do.
type DeviceAttr struct {
	NodeGUID, SysImageGUID       uint64
	MaxQP, MaxQPWR, MaxSGE       int
	MaxSGERd, MaxCQ, MaxCQE      int
	MaxMR, MaxPD                 int
	MaxQPRdAtom, MaxQPInitRdAtom int
	PhysPorts                    int
}

// Device is a reference to an open device.
type Device struct{}

func (d *Device) Name() string                             { return "" }
func (d *Device) Index() int                               { return -1 }
func (d *Device) NodeGUID() uint64                         { return 0 }
func (d *Device) Transport() Transport                     { return 0 }
func (d *Device) LinkLayer(port uint8) LinkLayer           { return 0 }
func (d *Device) Attr() *DeviceAttr                        { return nil }
func (d *Device) DefaultPD() (*PD, error)                  { return nil, errors.ErrUnsupported }
func (d *Device) AllocPD() (*PD, error)                    { return nil, errors.ErrUnsupported }
func (d *Device) CreateCQ(CQConfig) (*CQ, error)           { return nil, errors.ErrUnsupported }
func (d *Device) CreateCompChannel() (*CompChannel, error) { return nil, errors.ErrUnsupported }
func (d *Device) Close() error                             { return nil }
func (d *Device) Removed() <-chan struct{}                 { return nil }
func (d *Device) MarkRemoved()                             {}
func (d *Device) Same(o *Device) bool                      { return false }

// PD is a protection domain.
type PD struct{}

func (p *PD) Device() *Device                            { return nil }
func (p *PD) Alloc(size int, access Access) (*MR, error) { return nil, errors.ErrUnsupported }
func (p *PD) RegMR(b []byte, access Access) (*MR, error) { return nil, errors.ErrUnsupported }
func (p *PD) CreateQP(QPConfig) (*QP, error)             { return nil, errors.ErrUnsupported }
func (p *PD) Close() error                               { return nil }

// MR is registered memory.
type MR struct{}

func (m *MR) Bytes() []byte        { return nil }
func (m *MR) Addr() uint64         { return 0 }
func (m *MR) Len() int             { return 0 }
func (m *MR) LKey() uint32         { return 0 }
func (m *MR) RKey() uint32         { return 0 }
func (m *MR) Slice(off, n int) SGE { return SGE{} }
func (m *MR) SGE() SGE             { return SGE{} }
func (m *MR) PD() *PD              { return nil }
func (m *MR) Close() error         { return nil }

// CompChannel is a completion event channel.
type CompChannel struct{}

func (c *CompChannel) Close() error { return nil }

// CQConfig says how to make a CQ.
type CQConfig struct {
	Entries  int
	Channel  *CompChannel
	Vector   int
	NoEvents bool
}

// CQ is a completion queue.
type CQ struct{}

func (c *CQ) Poll(wcs []WC) (int, error)                      { return 0, errors.ErrUnsupported }
func (c *CQ) Wait(ctx context.Context, wcs []WC) (int, error) { return 0, errors.ErrUnsupported }
func (c *CQ) Arm(solicitedOnly bool) error                    { return errors.ErrUnsupported }
func (c *CQ) Channel() *CompChannel                           { return nil }
func (c *CQ) Entries() int                                    { return 0 }
func (c *CQ) Device() *Device                                 { return nil }
func (c *CQ) Close() error                                    { return nil }

// QPConfig says how to make a QP.
type QPConfig struct {
	Type           QPType
	SendCQ, RecvCQ *CQ
	Cap            QPCap
	SignalAll      bool
}

// QP is a queue pair.
type QP struct{}

func (q *QP) Num() uint32                                { return 0 }
func (q *QP) Type() QPType                               { return 0 }
func (q *QP) State() QPState                             { return 0 }
func (q *QP) PD() *PD                                    { return nil }
func (q *QP) Device() *Device                            { return nil }
func (q *QP) SendCQ() *CQ                                { return nil }
func (q *QP) RecvCQ() *CQ                                { return nil }
func (q *QP) Cap() QPCap                                 { return QPCap{} }
func (q *QP) HasSRQ() bool                               { return false }
func (q *QP) Modify(attr *QPAttr, mask QPAttrMask) error { return errors.ErrUnsupported }
func (q *QP) SetState(s QPState)                         {}
func (q *QP) PostSend(wrs []SendWR) (int, error)         { return 0, errors.ErrUnsupported }
func (q *QP) PostRecv(wrs []RecvWR) (int, error)         { return 0, errors.ErrUnsupported }
func (q *QP) Close() error                               { return nil }

// OpError is the error of all calls of this package.
type OpError struct {
	Op     string
	Object string
	Err    error
}

func (e *OpError) Error() string { return e.Op + " " + e.Object + ": " + e.Err.Error() }
func (e *OpError) Unwrap() error { return e.Err }

// DeviceRemovedError says that a device was taken away while it was open.
type DeviceRemovedError struct{ Device string }

func (e *DeviceRemovedError) Error() string { return "RDMA device " + e.Device + " was removed" }

// TransitionError is a refused change of a QP's state.
type TransitionError struct {
	Type             QPType
	From, To         QPState
	Missing, Invalid QPAttrMask
}

func (e *TransitionError) Error() string { return "" }

// Batch builds a list of send work requests in place.
type Batch struct{}

func (b *Batch) Reset(qp *QP)                                           {}
func (b *Batch) Send(id uint64, sg ...SGE)                              {}
func (b *Batch) Write(id uint64, local SGE, remote uint64, rkey uint32) {}
func (b *Batch) Read(id uint64, local SGE, remote uint64, rkey uint32)  {}
func (b *Batch) Signal()                                                {}
func (b *Batch) Post() error                                            { return errors.ErrUnsupported }
func (b *Batch) Discard()                                               {}
