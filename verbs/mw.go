// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"sync"
	"syscall"

	"purerdma/internal/leak"
	"purerdma/provider"
)

// MW is a memory window (ibv_alloc_mw(3)). It is a key by which peers reach a piece of a memory
// region. Work requests bind and unbind it, without a system call. Its methods may be called
// concurrently.
type MW struct {
	pd   *PD
	p    provider.MW
	typ  MWType
	leak *leak.Entry

	mu     sync.Mutex
	rkey   uint32       // the key that the window has after the last Bind
	remote RemoteMemory // of the last Bind
	closed bool
}

// AllocMW allocates a memory window, which is not bound. The caller closes it.
func (p *PD) AllocMW(typ MWType) (*MW, error) {
	if typ != MWType1 && typ != MWType2 {
		return nil, p.dev.opError("allocate MW on", fmt.Errorf("type %d: %w", typ, syscall.EINVAL))
	}
	if err := p.remote.addWindow(typ); err != nil {
		return nil, p.dev.opError("allocate MW on", err)
	}
	if err := p.attach(kindMW); err != nil {
		p.remote.dropWindow(typ)
		return nil, p.dev.opError("allocate MW on", err)
	}
	w, err := p.dev.ctx.AllocMW(p.p, typ)
	if err != nil {
		p.remote.dropWindow(typ)
		p.detach(kindMW)
		return nil, p.dev.opError("allocate MW on", err)
	}
	return &MW{pd: p, p: w, typ: typ, rkey: w.RKey(), leak: leak.Track("MW", p.dev.info.Name)}, nil
}

// PD returns the protection domain.
func (w *MW) PD() *PD { return w.pd }

// Type returns the type of the window.
func (w *MW) Type() MWType { return w.typ }

// RKey returns the key that the last Bind assigned to the window, for requests of peers. It is 0
// before the first Bind.
func (w *MW) RKey() uint32 { return w.Remote().RKey }

// Bind returns the work request that binds the window to the n bytes of mr from off on (OpBindMW;
// ibv_bind_mw(3)). The bind assigns the window a new key, which RKey returns from then on. Post it
// once, to a QP of the window's PD of type RC or UC, before the next Bind.
//
// mr needs the right MWBind, and all rights of access. It cannot be deregistered while windows are
// bound to it. With n of 0 a window of type 1 is unbound. OpLocalInv unbinds a window of type 2,
// and so does the peer's OpSendInv. A bind that fails breaks the QP, and after it the window can
// only be closed. Close or invalidate a window of type 2 before its QP, because rxe makes the QP's
// Close wait for it.
//
// Do not let untrusted hosts connect to an rxe device while a program on this host has a window of
// type 2 on it. A peer's SEND_WITH_INV that names an unbound window, for example an invalidated
// one, crashes the kernel in rxe.
//
// Like MR.Slice it panics if the bytes are not all in mr.
func (w *MW) Bind(mr *MR, off, n int, access Access) SendWR {
	s := mr.Slice(off, n)
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &MWBindInfo{Type: w.typ, MW: w.rkey, RKey: nextKey(w.rkey), LKey: s.LKey, Addr: s.Addr, Length: uint64(n), Access: access}
	w.rkey, w.remote = b.RKey, RemoteMemory{Addr: s.Addr, Length: uint64(n), RKey: b.RKey}
	return SendWR{Opcode: OpBindMW, Bind: b}
}

// nextKey returns k with its low byte, which the owner of the key chooses, increased by one
// (ibv_inc_rkey(3)).
func nextKey(k uint32) uint32 { return k&^0xff | (k+1)&0xff }

// Close deallocates the window (ibv_dealloc_mw(3)), bound or not. It may be called
// more than once.
func (w *MW) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	dev := w.pd.dev
	if w.closed {
		return dev.opError("deallocate MW on", w.pd.retry())
	}
	if err := dev.destroyed(w.p.Close()); err != nil {
		return dev.opError("deallocate MW on", err)
	}
	w.closed = true
	w.leak.Done()
	w.pd.remote.dropWindow(w.typ)
	w.pd.closeRefused()
	return dev.opError("deallocate MW on", w.pd.detach(kindMW))
}
