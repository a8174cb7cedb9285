// SPDX-License-Identifier: Apache-2.0

package inprocess

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"purerdma/internal/fakeuverbs"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/test/connectx"
	"purerdma/test/connectx/prm"
)

// device is a software ConnectX and what its driver knows of it.
type device struct {
	k    *Kernel
	cfg  Config
	name string
	hca  *connectx.Device
	mem  processMemory
	uar  uint32 // the driver's own page of registers
	pd   uint32 // the driver's own PD
	xrcd uint32 // the driver's own XRC domain
	td   uint32 // the driver's own transport domain
	// irq says that there are events to be taken.
	irq    atomic.Bool
	events eventQueue

	mu    sync.Mutex
	key   uint8 // variant of the last key
	uars  map[*mlx5test.UAR]uint32
	cqs   map[uint32]*mlx5test.CQ
	qps   map[uint32]*mlx5test.QP
	srqs  map[uint32]*mlx5test.SRQ
	moved map[*mlx5test.QP]*rights
	mrs   map[*fakeuverbs.MR]region
	mws   map[*fakeuverbs.MW]uint32
}

func newDevice(k *Kernel, cfg Config, name string, addr [4]byte) *device {
	d := &device{
		k: k, cfg: cfg, name: name,
		uars:  make(map[*mlx5test.UAR]uint32),
		cqs:   make(map[uint32]*mlx5test.CQ),
		qps:   make(map[uint32]*mlx5test.QP),
		srqs:  make(map[uint32]*mlx5test.SRQ),
		moved: make(map[*mlx5test.QP]*rights),
		mrs:   make(map[*fakeuverbs.MR]region),
		mws:   make(map[*fakeuverbs.MW]uint32),
	}
	d.hca = connectx.New(connectx.Config{
		Name: name, Memory: &d.mem, Fabric: k.Fabric, Violation: cfg.Violation, Trace: cfg.Trace,
		Interrupt: func(int) { d.irq.Store(true) },
	})
	if err := d.boot(addr); err != nil {
		panic(fmt.Sprintf("inprocess: %s: %v", name, err)) // the device has just been made
	}
	return d
}

// boot makes what a driver makes for itself.
func (d *device) boot(addr [4]byte) (err error) {
	if d.uar, err = d.object(prm.OpAllocUAR); err != nil {
		return err
	}
	if d.pd, err = d.object(prm.OpAllocPD); err != nil {
		return err
	}
	if d.xrcd, err = d.object(prm.OpAllocXRCD); err != nil {
		return err
	}
	if d.td, err = d.object(prm.OpAllocTransportDomain); err != nil {
		return err
	}
	if err := d.makeEQ(); err != nil {
		return err
	}
	return d.setGID(addr)
}

// errnos are what mlx5_core makes of statuses.
var errnos = map[prm.Status]error{
	prm.StatusBadOp:          syscall.EINVAL,
	prm.StatusBadParam:       syscall.EINVAL,
	prm.StatusBadSysState:    syscall.EIO,
	prm.StatusBadResource:    syscall.EINVAL,
	prm.StatusResourceBusy:   syscall.EBUSY,
	prm.StatusLimit:          syscall.ENOMEM,
	prm.StatusBadResState:    syscall.EINVAL,
	prm.StatusBadIndex:       syscall.EINVAL,
	prm.StatusNoResources:    syscall.EAGAIN,
	prm.StatusBadQPState:     syscall.EINVAL,
	prm.StatusBadPacket:      syscall.EINVAL,
	prm.StatusBadSize:        syscall.EINVAL,
	prm.StatusBadInputLength: syscall.EIO,
	prm.StatusBadOutputLen:   syscall.EIO,
}

// command gives the device a command of n bytes that fill completes, and tail behind
// it, and returns its answer of out bytes.
func (d *device) command(opcode uint16, n int, tail []byte, out int, fill func(in []byte)) ([]byte, error) {
	in := make([]byte, n, n+len(tail))
	prm.HeaderIn.Opcode.Set(in, uint64(opcode))
	if fill != nil {
		fill(in)
	}
	answer := d.hca.Exec(append(in, tail...), out)
	if s := prm.Status(prm.HeaderOut.Status.Get(answer)); s != prm.StatusOK {
		errno, ok := errnos[s]
		if !ok {
			errno = errFirmware
		}
		return nil, fmt.Errorf("%s: %v, syndrome %#x: %w", connectx.CommandName(opcode), s, prm.HeaderOut.Syndrome.Get(answer), errno)
	}
	return answer, nil
}

// object gives a command that makes an object out of nothing.
func (d *device) object(opcode uint16) (uint32, error) {
	out, err := d.command(opcode, 16, nil, 16, nil)
	if err != nil {
		return 0, err
	}
	return uint32(prm.ObjectOut.Number.Get(out)), nil
}

// on gives a command that has just the number of an object.
func (d *device) on(opcode uint16, n uint32) error {
	_, err := d.command(opcode, 16, nil, 16, func(in []byte) { prm.ObjectIn.Number.Set(in, uint64(n)) })
	return err
}

// destroy gives a command that destroys an object. What a device whose firmware has
// failed refuses to destroy is as good as destroyed, which is what mlx5_core says of
// it, too.
func (d *device) destroy(opcode uint16, n uint32) error {
	err := d.on(opcode, n)
	if errors.Is(err, errFirmware) {
		return nil
	}
	return err
}

// errFirmware is what all commands fail with once the firmware has failed.
var errFirmware = fmt.Errorf("the firmware has failed: %w", syscall.EIO)

// end destroys an object. The kernel has seen to it that nobody uses it, so that a
// refusal is somebody's mistake.
func (d *device) end(opcode uint16, n uint32) {
	if err := d.destroy(opcode, n); err != nil && d.cfg.Violation != nil {
		d.cfg.Violation(connectx.Violation{Device: d.name, Object: connectx.CommandName(opcode), Text: err.Error()})
	}
}

// AllocPD makes a protection domain.
func (d *device) AllocPD(p *fakeuverbs.PD) (err error) {
	p.Number, err = d.object(prm.OpAllocPD)
	return err
}

// DeallocPD ends it.
func (d *device) DeallocPD(p *fakeuverbs.PD) { d.end(prm.OpDeallocPD, p.Number) }

// OpenXRCD makes an XRC domain.
func (d *device) OpenXRCD(x *fakeuverbs.XRCD) (err error) {
	x.Number, err = d.object(prm.OpAllocXRCD)
	return err
}

// CloseXRCD ends it.
func (d *device) CloseXRCD(x *fakeuverbs.XRCD) { d.end(prm.OpDeallocXRCD, x.Number) }
