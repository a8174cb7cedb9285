// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"purerdma/cm"
	"purerdma/cmd/internal/addrinfo"
	"purerdma/cmd/internal/tool"
	"purerdma/verbs"
)

const (
	resolveTimeout = 2 * time.Second
	// settleTime is the time for a subnet manager to set up the switches.
	settleTime = 3 * time.Second
)

// test is one run.
type test struct {
	opt     *options
	u       *tool.UI
	ch      *cm.EventChannel
	pump    *tool.Pump
	joined  *tool.Goal
	group   cm.Addr
	members []*member
	byID    tool.ByID[member]
}

// member is one membership of the group.
type member struct {
	tool.Datagrams
	in *cm.Multicast
}

// newTest creates the channel and the IDs. It prints a failure.
func newTest(opt *options, u *tool.UI) (*test, error) {
	ch, err := tool.OpenChannel(u)
	if err != nil {
		return nil, err
	}
	t := &test{opt: opt, u: u, ch: ch, joined: tool.NewGoal(opt.conns)}
	for range opt.conns {
		id, err := ch.NewID(cm.IDConfig{PortSpace: opt.space})
		if err != nil {
			u.Fail(err)
			ch.Close()
			return nil, err
		}
		m := &member{Datagrams: tool.Datagrams{ID: id, U: u, Count: opt.count, Size: opt.size}}
		t.byID.Store(id, m)
		t.members = append(t.members, m)
	}
	return t, nil
}

// run joins, sends or receives, and leaves.
func (t *test) run(ctx context.Context) error {
	t.u.Printf("mckey: starting %s\n", map[bool]string{true: "client", false: "server"}[t.opt.sender])
	bind, err := t.addresses(ctx)
	if err != nil {
		t.u.Printf("getaddrinfo failed (%s) - invalid hostname or IP address\n", addrinfo.Strerror(err))
		t.u.Fail(err)
		return err
	}
	t.pump = tool.StartPump(ctx, t.ch, t.handle, func(err error) {
		t.u.Perror("rdma_get_cm_event", err)
		t.joined.Fail(err)
	})
	t.u.Printf("mckey: joining\n")
	for _, m := range t.members {
		if err := t.start(m, bind); err != nil {
			return err
		}
	}
	err = t.joined.Wait(ctx)
	if err == nil {
		err = t.transfer(ctx)
	}
	return errors.Join(t.leave(), err)
}

// leave leaves the group. Like the C program it fails if the group was not joined, and the exit
// status is the result of leaving.
func (t *test) leave() error {
	var failed error
	for _, m := range t.members {
		err := fmt.Errorf("leave the group %s, which was not joined: %w", t.opt.group, syscall.EADDRNOTAVAIL)
		if m.in != nil {
			err = m.in.Leave()
		}
		if err != nil {
			t.u.Perror("mckey: failure leaving", err)
			failed = &tool.StatusError{Status: tool.StatusFailed, Err: err}
		}
	}
	return failed
}

// addresses resolves the group and the address to bind to, which may be empty.
func (t *test) addresses(ctx context.Context) (bind cm.Addr, err error) {
	if t.opt.bind != "" {
		ip, err := tool.LookupHost(ctx, t.opt.bind)
		if err != nil {
			return bind, err
		}
		bind = cm.AddrFrom(netip.AddrPortFrom(ip, 0))
	}
	if !t.opt.unmapped {
		ip, err := tool.LookupHost(ctx, t.opt.group)
		t.group = cm.AddrFrom(netip.AddrPortFrom(ip, 0))
		return bind, err
	}
	gid, err := netip.ParseAddr(t.opt.group)
	if err != nil || !gid.Is6() {
		return bind, fmt.Errorf("%q is no GID: %w", t.opt.group, addrinfo.NoName)
	}
	t.group = cm.Addr{IB: cm.IBAddr{GID: gid.As16()}}
	return bind, nil
}

// start starts to join. It first resolves the address of the group, unless that is a GID.
func (t *test) start(m *member, bind cm.Addr) error {
	if bind.IsValid() {
		if err := m.ID.Bind(bind); err != nil {
			t.u.Perror("mckey: addr bind failure", err)
			return err
		}
	}
	if t.opt.unmapped {
		return t.join(m)
	}
	err := m.ID.ResolveAddr(bind, t.group, resolveTimeout)
	if err != nil {
		t.u.Perror("mckey: resolve addr failure", err)
	}
	return err
}

// handle processes an event. It runs in the goroutine that fetches events.
func (t *test) handle(ev *cm.Event) {
	m := t.byID.Load(ev.ID)
	switch ev.Type {
	case cm.EventAddrResolved:
		t.joined.Fail(t.join(m))
	case cm.EventMulticastJoin:
		to := &ev.UD.AHAttr
		t.u.Printf("mckey: joined dgid: %v mlid 0x%x sl %d\n", netip.AddrFrom16(to.GRH.DGID), to.DLID, to.SL)
		if err := m.Address(&ev.UD); err != nil {
			t.joined.Fail(err)
			return
		}
		t.joined.Done()
	case cm.EventAddrError, cm.EventRouteError, cm.EventMulticastError:
		t.u.Printf("mckey: event: %v, error: %d\n", ev.Type, ev.Status)
		t.u.Fail(tool.EventError(ev))
		t.joined.Fail(tool.EventError(ev))
	case cm.EventAddrChange:
		t.u.Printf("mckey: event: %v, status: %d\n", ev.Type, ev.Status)
	case cm.EventDeviceRemoval:
		t.u.Fail(ev.Err())
		t.joined.Fail(ev.Err())
	}
}

// join creates the QP and requests the membership.
func (t *test) join(m *member) error {
	if t.opt.noLoopback {
		// No driver of this module can create such a QP.
		err := fmt.Errorf("QP without multicast loopback (-l): %w", syscall.EOPNOTSUPP)
		t.u.Perror("mckey: unable to create QP", err)
		return err
	}
	if err := m.Init(); err != nil {
		return err
	}
	if !t.opt.sender {
		if err := m.PostRecvs(); err != nil {
			return err
		}
	}
	flags := cm.FullMember
	if t.opt.sendOnly {
		flags = cm.SendOnlyFullMember
	}
	var err error
	if m.in, err = m.ID.JoinMulticast(t.group, flags); err != nil {
		t.u.Perror("mckey: failure joining", err)
	}
	return err
}

// transfer sends to the group, or receives.
func (t *test) transfer(ctx context.Context) error {
	select {
	case <-time.After(settleTime):
	case <-ctx.Done():
		return ctx.Err()
	}
	if t.opt.count == 0 {
		return nil
	}
	if t.opt.sender {
		t.u.Printf("initiating data transfers\n")
		for _, m := range t.members {
			if err := m.PostSends(verbs.SendSignaled); err != nil {
				return err
			}
		}
	} else {
		t.u.Printf("receiving data transfers\n")
	}
	// A sender also waits for its completions, unlike in C. Destroying a QP discards the
	// messages that the device has not sent yet. rxe since Linux 6.4 sends from a worker.
	for _, m := range t.members {
		if err := m.Await(ctx, nil); err != nil {
			return err
		}
	}
	t.u.Printf("data transfers complete\n")
	return nil
}

// close releases everything.
func (t *test) close() {
	if t.pump != nil {
		t.pump.Stop()
	}
	for _, m := range t.members {
		m.Close()
	}
	t.ch.Close()
}
