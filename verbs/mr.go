// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"syscall"

	"purerdma/internal/leak"
	"purerdma/provider"
)

// MR is registered memory (ibv_reg_mr(3)). Local work requests name pieces of it by Slice, peers by
// Remote. Its methods may be called concurrently.
type MR struct {
	pd   *PD
	p    provider.MR
	buf  *buffer // nil if the memory is another device's
	addr uint64
	size int
	keys atomic.Uint64 // lkey<<32 | rkey. Reregister may change them
	leak *leak.Entry
	// onDemand reports that the memory is not pinned. Reregister does not change it, even if it
	// changes access.
	onDemand bool

	mu     sync.Mutex // of Reregister and Close
	access Access
	closed atomic.Bool
}

// Alloc registers new, zeroed memory of size bytes for a PD. The memory is outside the Go heap and
// starts on a page of its own. It lives until the MR is closed, and also every other MR that
// RegMR made over a part of it. It must not be touched afterwards.
//
// An error that wraps ENOMEM or EPERM usually means RLIMIT_MEMLOCK, and names it.
func (p *PD) Alloc(size int, access Access) (*MR, error) {
	return p.alloc(size, access, false, anyNode)
}

// AllocHuge is Alloc with pages of the kernel's default huge size, usually 2 MiB. Devices and their
// drivers need fewer entries for them. The administrator reserves these pages
// (/proc/sys/vm/nr_hugepages). If there are not enough, the error wraps ENOMEM.
func (p *PD) AllocHuge(size int, access Access) (*MR, error) {
	return p.alloc(size, access, true, anyNode)
}

func (p *PD) alloc(size int, access Access, huge bool, node int) (*MR, error) {
	if size <= 0 {
		return nil, p.dev.opError("allocate memory for", fmt.Errorf("%d bytes: %w", size, syscall.EINVAL))
	}
	buf, err := allocBuffer(size, huge, node)
	if err != nil {
		return nil, p.dev.opError("allocate memory for", fmt.Errorf("%d bytes: %w", size, err))
	}
	return p.register(buf, access)
}

// RegMR registers the memory of b, which may come from the Go heap. It is pinned there, and not
// garbage-collected, until the MR is closed. b need not start or end on a page boundary. The device
// cannot reach other memory on the same pages. For memory that the program allocates for RDMA,
// Alloc is the better choice. The pages of small Go slices are shared with other objects and all
// count against RLIMIT_MEMLOCK.
func (p *PD) RegMR(b []byte, access Access) (*MR, error) {
	if len(b) == 0 {
		return nil, p.dev.opError("register memory on", fmt.Errorf("no bytes: %w", syscall.EINVAL))
	}
	return p.register(keepBuffer(b), access)
}

func (p *PD) register(buf *buffer, access Access) (*MR, error) {
	if err := checkAccess(access); err != nil {
		buf.free()
		return nil, p.dev.opError("register memory on", err)
	}
	if err := p.attachMR(access); err != nil {
		buf.free()
		return nil, p.dev.opError("register memory on", err)
	}
	pcfg := mrConfigs.get()
	defer mrConfigs.put(pcfg)
	*pcfg = provider.MRConfig{PD: p.p, Mem: buf.bytes, IOVA: buf.addr(), Access: access}
	mr, err := p.dev.ctx.RegMR(pcfg)
	if err != nil {
		buf.free()
		p.detachMR(access)
		return nil, p.dev.opError("register memory on", memoryError(len(buf.bytes), access, memlockError(err)))
	}
	return newMR(p, mr, buf, buf.addr(), len(buf.bytes), access), nil
}

// attachMR counts a new memory region on the PD, unless the PD refuses its rights.
func (p *PD) attachMR(access Access) error {
	if err := p.remote.add(access); err != nil {
		return err
	}
	if err := p.attach(kindMR); err != nil {
		p.remote.drop(access)
		return err
	}
	return nil
}

// detachMR is the inverse of attachMR.
func (p *PD) detachMR(access Access) error {
	p.remote.drop(access)
	return p.detach(kindMR)
}

func newMR(p *PD, mr provider.MR, buf *buffer, addr uint64, size int, access Access) *MR {
	m := &MR{pd: p, p: mr, buf: buf, addr: addr, size: size, access: access, leak: leak.Track("MR", p.dev.info.Name)}
	m.onDemand = access&OnDemand != 0 || buf == nil // memory of another device may also move
	m.setKeys()
	p.onDemand.add(m)
	return m
}

func (m *MR) setKeys() { m.keys.Store(uint64(m.p.LKey())<<32 | uint64(m.p.RKey())) }

// String returns the size, the keys and the device, as "8192 bytes of memory, lkey 0x100, rkey
// 0x100, of rxe0". It does not contain the data.
func (m *MR) String() string {
	return fmt.Sprintf("%d bytes of memory, lkey %#x, rkey %#x, of %v", m.size, m.LKey(), m.RKey(), m.PD().Device())
}

// Bytes returns the memory, nil if it is another device's. Memory of Alloc must not be touched
// after Close, and Bytes then returns nil. While a work request names the memory, it belongs to the
// device.
func (m *MR) Bytes() []byte {
	if m.buf == nil || m.buf.ours() && m.closed.Load() {
		return nil
	}
	return m.buf.bytes
}

// Addr returns the address of the first byte, as work requests name it.
func (m *MR) Addr() uint64 { return m.addr }

// Len returns the length in bytes.
func (m *MR) Len() int { return m.size }

// LKey returns the key for local work requests.
func (m *MR) LKey() uint32 { return uint32(m.keys.Load() >> 32) }

// RKey returns the key for requests of peers.
func (m *MR) RKey() uint32 { return uint32(m.keys.Load()) }

// PD returns the protection domain.
func (m *MR) PD() *PD {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pd
}

// Access returns the rights to the memory.
func (m *MR) Access() Access {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.access
}

// Slice returns the n bytes from off on as an element of a work request. Like the slice expression
// b[off:off+n], it panics if they are not all in the MR. It also panics if n does not fit the 32
// bits of an element's length, or if the MR is closed, because the device must not use its memory.
func (m *MR) Slice(off, n int) SGE {
	if m.closed.Load() {
		panic("verbs: element of a closed MR")
	}
	if m.buf != nil {
		_ = m.buf.bytes[off : off+n]
	} else if off < 0 || n < 0 || off > m.size-n {
		panic(fmt.Sprintf("verbs: %d bytes from %d on of an MR of %d", n, off, m.size))
	}
	if uint64(n) > math.MaxUint32 {
		panic("verbs: scatter/gather element of 4 GiB or more")
	}
	return SGE{Addr: m.addr + uint64(off), Length: uint32(n), LKey: m.LKey()}
}

// SGE returns the whole MR as an element of a work request. It panics as Slice
// does.
func (m *MR) SGE() SGE { return m.Slice(0, m.size) }

// Close deregisters the memory and frees or unpins it (ibv_dereg_mr(3)). It may be called more than
// once. It is safe while work requests still name the memory, because the memory is freed after the
// device has lost its access. These requests fail when the device executes them, and break their
// connections, so wait for them or close the QP first.
//
// If the kernel refuses, for example because windows are bound to the memory, Close returns the
// error. The memory stays in place, because the device may still reach it, until another Close
// succeeds. The Close of each window and each QP on the PD also tries it again.
func (m *MR) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dev := m.pd.dev
	if m.closed.Load() {
		return dev.opError("deregister memory on", m.pd.retry())
	}
	m.pd.onDemand.remove(m)
	if err := dev.destroyed(m.p.Close()); err != nil {
		m.pd.onDemand.add(m)
		m.pd.refused.add(m)
		return dev.opError("deregister memory on", err)
	}
	m.pd.refused.remove(m)
	m.closed.Store(true)
	m.leak.Done()
	var err error
	if m.buf != nil {
		err = m.buf.free()
	}
	return dev.opError("deregister memory on", errors.Join(err, m.pd.detachMR(m.access)))
}
