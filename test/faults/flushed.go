// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// fullQueue is the largest send queue of siw. A QP with as many requests has no slot that the
// provider can leave empty. For fewer requests the queue has as many slots, and the provider
// leaves one empty.
const fullQueue = 1 << 15

// postDuringFlush posts into a full send queue while the peer ends the connection. siw_sq_flush
// clears the flag VALID of a slot with its completion, and once more when it advances. A request
// that is posted in between never completes. In every other round the queue has an empty slot,
// and no request may be lost.
func postDuringFlush() error {
	runtime.GOMAXPROCS(3) // the posting goroutine never blocks
	rounds, lost := 0, 0
	for end := time.Now().Add(45 * time.Second); lost < 3 && time.Now().Before(end); rounds++ {
		posted, n, err := flushRound(fullQueue - 1)
		if err != nil {
			return err
		}
		if n != 0 {
			return fmt.Errorf("%d of %d requests have no completion, although a slot of the queue is empty", n, posted)
		}
		if posted, n, err = flushRound(fullQueue); err != nil {
			return err
		}
		if n != 0 {
			fmt.Printf("%d of %d requests have no completion\n", n, posted)
		}
		lost += n
	}
	if lost == 0 {
		return fmt.Errorf("all requests of %d rounds have completed", rounds)
	}
	fmt.Printf("the full queue lost %d requests in %d rounds, and the queue with an empty slot none\n", lost, rounds)
	return nil
}

// flushRound connects a QP with a send queue for depth requests. It returns the number of its
// posted requests, and how many of them have no completion when the QP is in the error state.
func flushRound(depth int) (posted, lost int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	f, err := newFlush(ctx, depth)
	if err != nil {
		return 0, 0, err
	}
	defer f.close()
	if err := f.hold(); err != nil {
		return 0, 0, err
	}
	pctx, stop := context.WithCancel(ctx)
	defer stop()
	polled, filled := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(polled)
		f.poll(pctx)
	}()
	go func() { filled <- f.fill() }()
	time.Sleep(20 * time.Millisecond)
	go f.server.Disconnect(ctx)
	// When the event has arrived, cm has moved the QP to the error state. siw has flushed the
	// queue before that, and the provider has completed the later requests.
	_, err = f.client.Wait(ctx)
	err = errors.Join(err, <-filled)
	stop()
	<-polled
	if err := errors.Join(err, f.rest()); err != nil {
		return 0, 0, err
	}
	return f.posted, f.posted - f.completed, nil
}

// flush is a connection whose client has a QP of its own.
type flush struct {
	server, client *cm.Conn
	pd             *verbs.PD
	cq             *verbs.CQ
	qp             *verbs.QP
	source, sink   *verbs.MR

	room              int    // largest number of requests
	posted, completed int    // the IDs of the requests are 0 to posted-1
	seen              []bool // requests with a completion. A READ can have two.
}

// holdSize is the length of the READ that holds the queue.
const holdSize = 16 << 20

func newFlush(ctx context.Context, depth int) (f *flush, err error) {
	hosts, err := vmtest.Ends()
	if err != nil {
		return nil, err
	}
	ln, err := cm.Listen(ctx, "tcp", netip.AddrPortFrom(hosts[0].IPv4, 0).String())
	if err != nil {
		return nil, err
	}
	defer ln.Close()
	f = &flush{room: depth + 1<<16}
	f.seen = make([]bool, f.room)
	accepted := make(chan error, 1)
	go func() {
		req, err := ln.Accept(ctx)
		if err == nil {
			f.server, err = req.Accept(ctx, nil, nil)
		}
		accepted <- err
	}()
	d := cm.Dialer{LocalAddr: cm.AddrFrom(netip.AddrPortFrom(hosts[1].IPv4, 0))}
	r, err := d.Resolve(ctx, "tcp", ln.Addr().String())
	if err != nil {
		return nil, err
	}
	if f.pd, err = r.Device().AllocPD(); err != nil {
		return nil, err
	}
	if f.cq, err = r.Device().CreateCQ(verbs.CQConfig{Entries: f.room}); err != nil {
		return nil, err
	}
	if f.qp, err = f.pd.CreateQP(verbs.QPConfig{SendCQ: f.cq, RecvCQ: f.cq, Cap: verbs.QPCap{SendWR: depth, RecvWR: 1, SendSGE: 1, RecvSGE: 1}}); err != nil {
		return nil, err
	}
	f.client, err = r.Connect(ctx, f.qp, nil)
	if err := errors.Join(err, <-accepted); err != nil {
		return nil, err
	}
	if f.source, err = f.server.PD().Alloc(holdSize, verbs.LocalWrite|verbs.RemoteRead); err != nil {
		return nil, err
	}
	f.sink, err = f.pd.Alloc(holdSize, verbs.LocalWrite|verbs.RemoteWrite)
	return f, err
}

func (f *flush) close() {
	f.client.Close()
	f.server.Close()
	f.qp.Close()
	f.cq.Close()
	f.source.Close()
	f.sink.Close()
	f.pd.Close()
}

// hold posts a long READ and a fenced WRITE, behind which the queue fills.
func (f *flush) hold() error {
	n, err := f.qp.PostSend([]verbs.SendWR{
		{ID: 0, Opcode: verbs.OpRead, Flags: verbs.SendSignaled, RemoteAddr: f.source.Addr(), RKey: f.source.RKey(), SGList: []verbs.SGE{f.sink.Slice(0, holdSize)}},
		{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled | verbs.SendFence},
	})
	f.posted = n
	return err
}

// fill posts empty WRITEs into each free slot until the QP is in the error state.
func (f *flush) fill() error {
	runtime.LockOSThread()
	wrs := make([]verbs.SendWR, 64)
	for i := range wrs {
		wrs[i] = verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled}
	}
	for f.posted+len(wrs) <= f.room && f.qp.State() != verbs.QPErr {
		for i := range wrs {
			wrs[i].ID = uint64(f.posted + i)
		}
		n, err := f.qp.PostSend(wrs)
		f.posted += n
		if err != nil && !errors.Is(err, verbs.ErrFull) {
			return err
		}
	}
	return nil
}

// poll takes completions until ctx ends. It arms the CQ again and again. An event in
// siw_sqe_complete makes the time between the two clears longer.
func (f *flush) poll(ctx context.Context) {
	var wcs [32]verbs.WC
	for {
		n, err := f.cq.Wait(ctx, wcs[:])
		if err != nil {
			return
		}
		f.count(wcs[:n])
	}
}

// rest takes the remaining completions. All of them are in the CQ.
func (f *flush) rest() error {
	var wcs [64]verbs.WC
	for {
		n, err := f.cq.Poll(wcs[:])
		if n == 0 || err != nil {
			return err
		}
		f.count(wcs[:n])
	}
}

func (f *flush) count(wcs []verbs.WC) {
	for i := range wcs {
		if id := wcs[i].ID; !f.seen[id] {
			f.seen[id] = true
			f.completed++
		}
	}
}
