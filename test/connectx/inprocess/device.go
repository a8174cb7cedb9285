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

// device is a software ConnectX with the state of its driver.
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
	// irq is set while events may be pending.
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
		panic(fmt.Sprintf("inprocess: %s: %v", name, err)) // a new device must not fail
	}
	return d
}

// boot creates the driver's own objects.
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

// errnos has mlx5_core's errnos for statuses.
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

// command executes a command of n bytes, followed by tail. fill completes the n bytes. It returns the device's
// response of out bytes.
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

// object executes a command that creates an object without parameters.
func (d *device) object(opcode uint16) (uint32, error) {
	out, err := d.command(opcode, 16, nil, 16, nil)
	if err != nil {
		return 0, err
	}
	return uint32(prm.ObjectOut.Number.Get(out)), nil
}

// on executes a command whose only parameter is the number of an object.
func (d *device) on(opcode uint16, n uint32) error {
	_, err := d.command(opcode, 16, nil, 16, func(in []byte) { prm.ObjectIn.Number.Set(in, uint64(n)) })
	return err
}

// destroy executes a command that destroys an object. If the firmware has failed, the device refuses the command,
// and the object counts as destroyed, as in mlx5_core.
func (d *device) destroy(opcode uint16, n uint32) error {
	err := d.on(opcode, n)
	if errors.Is(err, errFirmware) {
		return nil
	}
	return err
}

// errFirmware is the error of all commands after the firmware has failed.
var errFirmware = fmt.Errorf("the firmware has failed: %w", syscall.EIO)

// end destroys an object. The kernel ensures that the object is unused, so that a refusal is a fault of the
// driver.
func (d *device) end(opcode uint16, n uint32) {
	if err := d.destroy(opcode, n); err != nil && d.cfg.Violation != nil {
		d.cfg.Violation(connectx.Violation{Device: d.name, Object: connectx.CommandName(opcode), Text: err.Error()})
	}
}

// AllocPD creates a protection domain.
func (d *device) AllocPD(p *fakeuverbs.PD) (err error) {
	p.Number, err = d.object(prm.OpAllocPD)
	return err
}

// DeallocPD destroys a protection domain.
func (d *device) DeallocPD(p *fakeuverbs.PD) { d.end(prm.OpDeallocPD, p.Number) }

// OpenXRCD creates an XRC domain.
func (d *device) OpenXRCD(x *fakeuverbs.XRCD) (err error) {
	x.Number, err = d.object(prm.OpAllocXRCD)
	return err
}

// CloseXRCD destroys an XRC domain.
func (d *device) CloseXRCD(x *fakeuverbs.XRCD) { d.end(prm.OpDeallocXRCD, x.Number) }
