// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/uverbs"
	"purerdma/verbs"
)

// The kernels of these tests assign the lowest free handle, as Linux does. If an object is
// destroyed while a command that names it is on its way, the command reaches the object that
// was created next.

// watchedKernel calls the hook before every command with the name of the command, without
// holding a lock.
type watchedKernel struct {
	uverbs.Kernel
	mu       sync.Mutex
	before   func(command string)
	destroys int // commands that destroy an object
}

// watch replaces the kernel of a route by a watched one.
func watch(rt *route) *watchedKernel {
	k := &watchedKernel{Kernel: rt.h.Kernel}
	rt.h.Kernel = k
	return k
}

// once calls fn before the next command of that name.
func (k *watchedKernel) once(command string, fn func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.before = func(c string) {
		if !strings.HasSuffix(c, command) {
			return
		}
		k.mu.Lock()
		k.before = nil
		k.mu.Unlock()
		fn()
	}
}

func (k *watchedKernel) notify(command string) {
	k.mu.Lock()
	before := k.before
	if strings.Contains(command, "DESTROY") || strings.Contains(command, "DEALLOC") {
		k.destroys++
	}
	k.mu.Unlock()
	if before != nil {
		before(command)
	}
}

// destroyed returns the number of commands so far that destroyed an object.
func (k *watchedKernel) destroyed() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.destroys
}

func (k *watchedKernel) Interfaces() ([]uverbs.Interface, error) {
	return k.Kernel.(uverbs.Interfaces).Interfaces()
}

func (k *watchedKernel) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	t, err := k.Kernel.Open(info)
	return watchedTransport{t, k}, err
}

type watchedTransport struct {
	uverbs.Transport
	k *watchedKernel
}

func (t watchedTransport) Ioctl(req *uverbs.Request) error {
	t.k.notify(req.Name())
	return t.Transport.Ioctl(req)
}

func (t watchedTransport) Write(cmd []byte) error {
	switch abi.View[abi.UverbsCmdHdr](cmd).Command {
	case abi.IB_USER_VERBS_CMD_POST_SEND:
		t.k.notify("POST_SEND")
	case abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ:
		t.k.notify("REQ_NOTIFY_CQ")
	}
	return t.Transport.Write(cmd)
}

// TestPostRecvMovesNoOtherQP posts a receive to a QP in the error state, for which rxe runs
// MODIFY_QP. Before that command, another goroutine closes the QP and creates the next one,
// which gets the handle if it is free.
func TestPostRecvMovesNoOtherQP(t *testing.T) {
	rt := fakeRoute()
	k := watch(rt)
	peer, old := newEnd(t, rt.h, rt.b, verbs.QPCap{}), newEnd(t, rt.h, rt.a, verbs.QPCap{})
	old.init(t)
	modify(t, old.qp, verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
	replaced := make(chan *end, 1)
	k.once("_MODIFY_QP", func() {
		go func() {
			if err := old.qp.Close(); err != nil {
				t.Errorf("QP.Close: %v", err)
			}
			next := newEnd(t, rt.h, rt.a, verbs.QPCap{})
			connect(t, next, peer)
			replaced <- next
		}()
		select {
		case next := <-replaced:
			replaced <- next
		case <-time.After(20 * time.Millisecond): // Close is waiting
		}
	})
	if _, err := old.qp.PostRecv([]verbs.RecvWR{{ID: 1}}); err != nil {
		t.Errorf("QP.PostRecv: %v", err)
	}
	a, err := (<-replaced).qp.Query()
	if err != nil || a.State != verbs.QPRTS {
		t.Errorf("Query of the new QP = %v, %v, want RTS, nil", a.State, err)
	}
}

// namedUse is a call that runs a command which names an object by its handle.
type namedUse struct {
	name    string
	command string // the end of its name
	object  io.Closer
	use     func() error
}

// TestCommandKeepsHandle closes each object just before a command that names it. Close waits
// for the command, or leaves the object to the last of its children. If the object were
// destroyed first, the kernel would assign the handle to another object.
func TestCommandKeepsHandle(t *testing.T) {
	t.Run("rxe", func(t *testing.T) {
		rt := fakeRoute()
		testCommandKeepsHandle(t, rt, func(t *testing.T, e *end) []namedUse {
			cq := kept(e.dev.CreateCQ(verbs.CQConfig{}))(t)
			p := e.qp.Provider()
			failed := newEnd(t, rt.h, rt.a, verbs.QPCap{})
			failed.init(t)
			modify(t, failed.qp, verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
			return []namedUse{
				{"PostSend", "POST_SEND", e.qp, func() error { return second(e.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}})) }},
				{"Batch", "POST_SEND", p, func() error {
					p.BatchBegin()
					if err := p.BatchAdd(&verbs.SendWR{Opcode: verbs.OpSend}); err != nil {
						p.BatchDiscard()
						return err
					}
					return p.BatchPost()
				}},
				{"PostRecv", "_MODIFY_QP", failed.qp, func() error { return second(failed.qp.PostRecv([]verbs.RecvWR{{}})) }},
				{"CQ.Arm", "REQ_NOTIFY_CQ", cq, func() error { return cq.Arm(false) }},
				{"provider's CQ.Arm", "REQ_NOTIFY_CQ", cq.Provider(), func() error { return cq.Provider().Arm(false) }},
			}
		})
	})
	t.Run("mlx5", func(t *testing.T) {
		rt := mlx5Route(t)
		testCommandKeepsHandle(t, rt, func(t *testing.T, e *end) []namedUse {
			cq := kept(e.dev.CreateCQ(verbs.CQConfig{}))(t)
			srq := kept(e.pd.CreateSRQ(verbs.SRQConfig{MaxWR: 4}))(t)
			limited := kept(e.pd.CreateSRQ(verbs.SRQConfig{MaxWR: 4, Limit: 1}))(t)
			pd := kept(e.dev.AllocPD())(t)
			mr := kept(e.pd.Alloc(4096, verbs.LocalWrite))(t)
			u := newEndWith(t, rt.h, rt.a, verbs.QPConfig{Type: verbs.UD})
			u.init(t)
			group := verbs.GID{0: 0xff, 1: 0x0e, 15: 9}
			rights := verbs.LocalWrite
			return []namedUse{
				{"SRQ.Modify", "_MODIFY_SRQ", srq, func() error { return srq.Modify(verbs.SRQAttr{Limit: 1}, verbs.SRQAttrLimit) }},
				{"SRQ.Query", "_QUERY_SRQ", srq, func() error { return second(srq.Query()) }},
				{"SRQ.PostRecv", "_MODIFY_SRQ", limited, func() error { return second(limited.PostRecv(make([]verbs.RecvWR, 2))) }},
				{"CQ.Resize", "_RESIZE_CQ", cq, func() error { return cq.Resize(1000) }},
				{"CQ.Moderate", "_MODIFY_CQ", cq, func() error { return cq.Moderate(1, 0) }},
				{"AttachMulticast", "_ATTACH_MCAST", u.qp, func() error { return u.qp.AttachMulticast(group, 0) }},
				{"DetachMulticast", "_DETACH_MCAST", u.qp, func() error { return u.qp.DetachMulticast(group, 0) }},
				{"MR.Reregister", "_REREG_MR", mr, func() error { return mr.Reregister(verbs.MRChange{Access: &rights}) }},
				{"MR.Reregister with a PD", "_REREG_MR", pd, func() error { return mr.Reregister(verbs.MRChange{PD: pd}) }},
				{"RegMR", "_REG_MR", pd, func() error { return child(pd.Alloc(4096, verbs.LocalWrite)) }},
				{"AllocMW", "_ALLOC_MW", pd, func() error { return child(pd.AllocMW(verbs.MWType2)) }},
				{"CreateAH", "_CREATE_AH", pd, func() error { return child(pd.CreateAH(e.to(e.gid))) }},
				{"CreateSRQ", "_SRQ_CREATE", pd, func() error { return child(pd.CreateSRQ(verbs.SRQConfig{})) }},
				{"CreateQP of a PD", "_QP_CREATE", pd, func() error { return child(pd.CreateQP(verbs.QPConfig{SendCQ: e.cq, RecvCQ: e.cq})) }},
				{"CreateQP of a CQ", "_QP_CREATE", cq, func() error { return child(e.pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq})) }},
				{"CreateQP of an SRQ", "_QP_CREATE", srq, func() error {
					return child(e.pd.CreateQP(verbs.QPConfig{SendCQ: e.cq, RecvCQ: e.cq, SRQ: srq}))
				}},
			}
		})
	})
}

// testCommandKeepsHandle runs a driver's own uses, and the uses that all drivers have. Each use
// gets its own objects.
func testCommandKeepsHandle(t *testing.T, rt *route, own func(t *testing.T, e *end) []namedUse) {
	k := watch(rt)
	uses := func(t *testing.T) []namedUse {
		e, _ := rt.pair(t, verbs.QPCap{})
		p := e.qp.Provider()
		toErr := &verbs.QPAttr{State: verbs.QPErr}
		return append([]namedUse{
			{"QP.Modify", "_MODIFY_QP", e.qp, func() error { return e.qp.Modify(toErr, verbs.QPAttrState) }},
			{"QP.Query", "_QUERY_QP", e.qp, func() error { return second(e.qp.Query()) }},
			{"provider's QP.Modify", "_MODIFY_QP", p, func() error { return p.Modify(toErr, verbs.QPAttrState) }},
			{"provider's QP.Query", "_QUERY_QP", p, func() error { return second(p.Query()) }},
		}, own(t, e)...)
	}
	for i, u := range uses(t) {
		t.Run(u.name, func(t *testing.T) { uses(t)[i].run(t, k) })
	}
}

// kept is must for an object that is closed when the test ends.
func kept[T io.Closer](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(v, err)(t)
		closer(t, v)
		return v
	}
}

func (u namedUse) run(t *testing.T, k *watchedKernel) {
	if u.name == "DetachMulticast" {
		// Close of the QP also detaches it from the group.
		if err := u.object.(*verbs.QP).AttachMulticast(verbs.GID{0: 0xff, 1: 0x0e, 15: 9}, 0); err != nil {
			t.Fatalf("QP.AttachMulticast: %v", err)
		}
	}
	closed := make(chan error, 1)
	given := false
	k.once(u.command, func() {
		given = true
		before := k.destroyed()
		go func() { closed <- u.object.Close() }()
		select {
		case err := <-closed:
			if n := k.destroyed() - before; n != 0 {
				t.Errorf("Close during %s destroyed %d objects, want 0", u.command, n)
			}
			closed <- err
		case <-time.After(20 * time.Millisecond):
		}
	})
	if err := u.use(); err != nil {
		t.Errorf("%s: %v", u.name, err)
	}
	if !given {
		t.Fatalf("%s did not run the command %s", u.name, u.command)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
}
