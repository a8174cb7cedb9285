// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/verbs"
)

// closing is an object that two goroutines close while others use it, again and again.
type closing struct {
	object interface{ Close() error }
	// uses are calls that return net.ErrClosed after Close. A call that creates an object on
	// this one also closes the new object, which keeps this one open until then.
	uses []func() error
	// quiet are calls without an error. After Close they return the same results as before, or
	// they panic if this is allowed.
	quiet []func()
}

// TestCloseWhileUsed is TestUseAfterClose for all objects except QPs. A call during Close
// finishes or returns net.ErrClosed, and a waiting call returns.
func TestCloseWhileUsed(t *testing.T) { fullRoutes(t, testCloseWhileUsed) }

func testCloseWhileUsed(t *testing.T, rt *route) {
	e := newEnd(t, rt.h, rt.a, verbs.QPCap{})
	dev, pd := e.dev, e.pd
	rights := verbs.LocalWrite
	for _, c := range []struct {
		name string
		make func(t *testing.T) *closing
	}{
		{name: "SRQ", make: func(t *testing.T) *closing {
			srq := must(pd.CreateSRQ(verbs.SRQConfig{MaxWR: 4, MaxSGE: 1}))(t)
			return &closing{object: srq, uses: []func() error{
				func() error { return second(srq.PostRecv(make([]verbs.RecvWR, 1))) },
				func() error { return srq.Modify(verbs.SRQAttr{Limit: 1}, verbs.SRQAttrLimit) },
				func() error { return second(srq.Query()) },
				func() error {
					return child(pd.CreateQP(verbs.QPConfig{SendCQ: e.cq, RecvCQ: e.cq, SRQ: srq}))
				},
			}, quiet: []func(){func() { srq.Attr() }}}
		}},
		{name: "MR", make: func(t *testing.T) *closing {
			mr := must(pd.Alloc(4096, everything))(t)
			return &closing{object: mr, uses: []func() error{
				func() error { return mr.Reregister(verbs.MRChange{Access: &rights}) },
			}, quiet: []func(){
				func() { mr.Bytes(); mr.RKey(); mr.Access(); mr.PD(); _ = mr.String() },
				func() {
					defer func() { recover() }() // Slice may panic
					mr.Slice(0, 8)
				},
			}}
		}},
		{name: "MW", make: func(t *testing.T) *closing {
			mw := must(pd.AllocMW(verbs.MWType2))(t)
			return &closing{object: mw, quiet: []func(){
				func() { mw.RKey() },
				func() { mw.Bind(e.buf, 0, 8, verbs.RemoteRead) },
			}}
		}},
		{name: "AH", make: func(t *testing.T) *closing {
			u := newEndWith(t, rt.h, rt.a, verbs.QPConfig{Type: verbs.UD})
			u.connectTo(t, nil)
			ah := must(u.pd.CreateAH(u.to(u.gid)))(t)
			// Poll the completions before the next post, so that neither queue fills up. This
			// is also needed when a message has found the handle destroyed and broken the QP.
			var mu sync.Mutex
			wcs := make([]verbs.WC, 256)
			send := func() error {
				mu.Lock()
				defer mu.Unlock()
				if _, err := u.cq.Poll(wcs); err != nil {
					return err
				}
				return second(u.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: ah, RemoteQPN: u.qp.Num(), RemoteQKey: qkey}}))
			}
			return &closing{object: ah, uses: []func() error{send, send}}
		}},
		{name: "PD", make: func(t *testing.T) *closing {
			pd := must(dev.AllocPD())(t)
			return &closing{object: pd, uses: []func() error{
				func() error { return child(pd.Alloc(4096, verbs.LocalWrite)) },
				func() error { return child(pd.AllocMW(verbs.MWType1)) },
				func() error { return child(pd.CreateAH(e.to(e.gid))) },
				func() error { return child(pd.CreateSRQ(verbs.SRQConfig{})) },
				func() error { return child(pd.CreateQP(verbs.QPConfig{SendCQ: e.cq, RecvCQ: e.cq})) },
				func() error {
					err := pd.Advise(verbs.Prefetch, true, verbs.SGE{Length: 1})
					if errors.Is(err, syscall.EINVAL) {
						return nil // not memory of this PD
					}
					return err
				},
				func() error {
					if err := e.buf.Reregister(verbs.MRChange{PD: pd}); err != nil {
						return err
					}
					defer time.Sleep(time.Millisecond) // without objects on it
					return e.buf.Reregister(verbs.MRChange{PD: e.pd})
				},
			}}
		}},
		{name: "CQ", make: func(t *testing.T) *closing {
			cq := must(dev.CreateCQ(verbs.CQConfig{}))(t)
			return &closing{object: cq, uses: []func() error{
				func() error { return cq.Arm(false) },
				func() error { return cq.Resize(100) },
				func() error { return cq.Moderate(1, 0) },
				func() error { return second(cq.Wait(context.Background(), make([]verbs.WC, 1))) },
				func() error { return child(pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq})) },
			}}
		}},
		{name: "CompChannel", make: func(t *testing.T) *closing {
			ch := must(dev.CreateCompChannel())(t)
			return &closing{object: ch, uses: []func() error{
				func() error { return second(ch.Next(context.Background())) },
				func() error { return second(ch.Next(context.Background())) },
				func() error { return child(dev.CreateCQ(verbs.CQConfig{Channel: ch})) },
			}}
		}},
		{name: "AsyncEvents", make: func(t *testing.T) *closing {
			q := must(dev.AsyncEvents())(t)
			return &closing{object: q, uses: []func() error{
				func() error { return second(q.Next(context.Background())) },
				func() error { return second(q.Next(context.Background())) },
			}}
		}},
		{name: "Device", make: func(t *testing.T) *closing {
			// The second device has no other user, so its context is closed with it.
			dev := must(rt.h.Open(rt.b.Device))(t)
			return &closing{object: dev, uses: []func() error{
				func() error { return child(dev.AllocPD()) },
				func() error { return child(dev.CreateCQ(verbs.CQConfig{})) },
				func() error { return child(dev.CreateCompChannel()) },
				func() error { return child(dev.AsyncEvents()) },
				func() error { return second(dev.DefaultPD()) },
			}, quiet: []func(){
				func() {
					if err := child(rt.h.Open(rt.b.Device)); err != nil {
						t.Errorf("Open during Close: %v", err)
					}
				},
				func() { dev.QueryPort(1) },
			}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 10 {
				c.make(t).run(t)
			}
		})
	}
}

// must fails the test if there is an error.
func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatalf("creating a %T: %v", v, err)
		}
		return v
	}
}

// child closes an object that was created on an object that other goroutines close. It then
// pauses, so that the other goroutines may find the parent without children.
func child[T interface{ Close() error }](v T, err error) error {
	if err != nil {
		return err
	}
	err = v.Close()
	time.Sleep(500 * time.Microsecond)
	return err
}

func (c *closing) run(t *testing.T) {
	t.Helper()
	var users sync.WaitGroup
	var closed atomic.Bool
	start := make(chan struct{})
	use := func(f func() error) {
		users.Add(1)
		go func() {
			defer users.Done()
			<-start
			for {
				err := f()
				switch {
				case errors.Is(err, net.ErrClosed):
					return
				case errors.Is(err, errors.ErrUnsupported) && closed.Load():
					return // an unsupported feature may be reported first
				case err == nil, errors.Is(err, verbs.ErrFull), errors.Is(err, errors.ErrUnsupported):
				default:
					t.Errorf("call during Close = %v, want nil, ErrFull, ErrUnsupported or net.ErrClosed", err)
					return
				}
			}
		}()
	}
	for _, f := range c.uses {
		use(f)
	}
	for _, f := range c.quiet {
		use(func() error {
			f()
			if closed.Load() {
				f()
				return net.ErrClosed
			}
			return nil
		})
	}
	var closers sync.WaitGroup
	for range 2 {
		closers.Go(func() {
			<-start
			time.Sleep(time.Millisecond)
			if err := c.object.Close(); err != nil {
				t.Errorf("concurrent Close: %v", err)
			}
			closed.Store(true)
		})
	}
	close(start)
	closers.Wait()
	users.Wait()
	if err := c.object.Close(); err != nil {
		t.Errorf("last Close: %v", err)
	}
}
