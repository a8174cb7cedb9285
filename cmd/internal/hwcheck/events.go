// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"purerdma/verbs"
)

// eventChecks use completion events.
var eventChecks = []Check{
	{ID: "events", Load: true, Title: "no lost wake-up of one sleeping goroutine", do: checkEvents},
	{ID: "events-shared", Load: true, Title: "no lost wake-up of eight sleeping goroutines", do: checkSharedEvents},
	{ID: "events-channel", Load: true, Local: true, Title: "events of several CQs on one channel, on this host", needs: needsDirect, do: checkChannel},
	{ID: "solicited", Title: "events for solicited messages only", needs: needsSolicited, do: checkSolicited},
}

func checkEvents(t *trial) {
	l := t.link(Config{})
	l.sendCQ.SetSpin(0)
	var wcs [8]verbs.WC
	w := t.load(manyWakeups)
	i := 0
	for ; i < 3000 || w.more(i); i++ {
		posted := make(chan error, 1)
		go func() { // posts before, during and after the arming
			spin(rand.IntN(2000))
			_, err := l.qp.PostSend([]verbs.SendWR{signaled(l.write(piece{0, 8}, 0))})
			posted <- err
		}()
		n, err := waitSome(t.ctx, l.sendCQ, wcs[:])
		if err := errors.Join(<-posted, err); err != nil {
			t.fail("wait %d: %v", i, err)
		}
		l.succeeded("WRITE", wcs[:n])
	}
	t.noteLoad(w, i, "waits")
}

// spin takes a time that depends on n.
func spin(n int) {
	for range n {
		spun.Add(1)
	}
}

var spun atomic.Uint64

func checkSharedEvents(t *trial) {
	const requests = 4000
	l := t.link(Config{Cap: verbs.QPCap{SendWR: 128}})
	l.sendCQ.SetSpin(0)
	w := t.load(manyWakeups)
	n := 0
	for ; n == 0 || w.more(n); n += requests {
		l.wakeSeveral(requests)
	}
	t.noteLoad(w, n, "requests")
}

// wakeSeveral posts requests while eight goroutines wait for their completions.
func (l *link) wakeSeveral(requests int64) {
	const waiters = 8
	t := l.t
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	room := make(chan struct{}, 100) // requests in flight
	var got atomic.Int64
	errs := make(chan error, waiters+1) // and of the posts
	var wg sync.WaitGroup
	for range waiters {
		wg.Go(func() { errs <- sleeper(ctx, l.sendCQ, room, &got, requests, cancel) })
	}
	for i := range requests {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		if i%50 == 0 {
			time.Sleep(time.Millisecond) // all goroutines fall asleep
		}
		if _, err := l.qp.PostSend([]verbs.SendWR{signaled(l.write(piece{0, 8}, 0))}); err != nil {
			cancel()
			errs <- fmt.Errorf("post request %d: %w", i, err)
			break
		}
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.must("wait", err)
	}
	if got.Load() != requests {
		t.fail("%d completions of %d requests", got.Load(), requests)
	}
}

// sleeper polls a CQ with others until all completions have been polled.
func sleeper(ctx context.Context, cq *verbs.CQ, room <-chan struct{}, got *atomic.Int64, want int64, end func()) error {
	var wcs [4]verbs.WC
	for ctx.Err() == nil {
		before := got.Load()
		n, err := waitSome(ctx, cq, wcs[:])
		if errors.Is(err, errLost) && got.Load() != before {
			err = nil // events have woken the others
		}
		if ctx.Err() != nil && n == 0 {
			return nil
		}
		if err != nil {
			// Another goroutine may have polled all completions of the last seconds.
			if errors.Is(err, os.ErrDeadlineExceeded) {
				continue
			}
			end()
			return err
		}
		for i := range wcs[:n] {
			if err := wcs[i].Err(); err != nil {
				end()
				return err
			}
			<-room
		}
		if got.Add(int64(n)) == want {
			end()
		}
	}
	return nil
}

func needsSolicited(t *trial) string {
	if iwarp(t.dev) {
		return "iWARP devices may report every completion"
	}
	return ""
}

func checkSolicited(t *trial) {
	l := t.link(Config{})
	for i := range 8 {
		t.must("post a receive", l.recv(uint64(i), []piece{{0, 8}}))
	}
	for range 4 {
		t.must("arm the CQ", l.recvCQ.Arm(true))
		l.farPost(PlainWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}, piece{0, 8})
		l.succeeded("SEND", l.farWait(true, 1))
		short, cancel := context.WithTimeout(t.ctx, 50*time.Millisecond)
		_, err := l.recvCQ.Channel().Next(short)
		cancel()
		if err == nil {
			t.fail("an unsolicited message caused an event")
		}
		l.farPost(PlainWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled | verbs.SendSolicited}, piece{0, 8})
		l.succeeded("solicited SEND", l.farWait(true, 1))
		long, cancel := context.WithTimeout(t.ctx, patience)
		_, err = l.recvCQ.Channel().Next(long)
		cancel()
		t.must("event of a solicited message", err)
		var wcs [2]verbs.WC
		for got := 0; got < 2; {
			n, err := l.recvCQ.Poll(wcs[got:])
			if got += n; err != nil || n == 0 {
				t.fail("%d completions after the event, %v, want 2", got, err)
			}
		}
	}
}

// needsDirect excludes devices whose QPs only the connection manager connects.
func needsDirect(t *trial) string {
	if iwarp(t.dev) {
		return "iWARP needs the connection manager"
	}
	return ""
}

// checkChannel waits for the events of several CQs on one channel. Each CQ has the requests of a QP.
func checkChannel(t *trial) {
	const queues = 4
	base := t.local()
	ch, err := base.dev.CreateCompChannel()
	t.must("create a channel", err)
	t.later(ch.Close)
	var froms [queues]*end
	for i := range froms {
		cq, err := base.dev.CreateCQ(verbs.CQConfig{Entries: 16, Channel: ch})
		t.must("create a CQ", err)
		t.later(cq.Close)
		own := *base // with another CQ
		own.sendCQ = cq
		froms[i] = t.connectedTo(&own)
	}
	var wcs [2]verbs.WC
	w := t.load(manyWakeups)
	events := 0
	for round := 0; round < 500 || w.more(events); round++ {
		waiting := map[*verbs.CQ]bool{}
		for i, from := range froms {
			if round%4 == 0 || (round+i)%queues == 0 { // all at once, or one
				t.must("arm a CQ", from.sendCQ.Arm(false))
				waiting[from.sendCQ] = true
			}
		}
		for _, from := range froms {
			if !waiting[from.sendCQ] {
				continue
			}
			wr := verbs.SendWR{Opcode: verbs.OpWrite, SGList: from.elements([]piece{{0, 8}}), RemoteAddr: base.mr.Addr() + 64, RKey: base.mr.RKey()}
			_, err := from.qp.PostSend([]verbs.SendWR{signaled(wr)})
			t.must("post", err)
		}
		for len(waiting) > 0 {
			ctx, cancel := context.WithTimeout(t.ctx, patience)
			cq, err := ch.Next(ctx)
			cancel()
			if err != nil {
				t.fail("round %d: no event of %d CQs: %v", round, len(waiting), err)
			}
			if !waiting[cq] {
				t.fail("round %d: an event of a CQ that is not armed", round)
			}
			delete(waiting, cq)
			events++
			if n, err := cq.Poll(wcs[:]); n != 1 || err != nil || wcs[0].Err() != nil {
				t.fail("round %d: %d completions after an event, %v, %v, want 1", round, n, err, wcs[0].Err())
			}
		}
	}
	t.noteLoad(w, events, "events")
	t.note("%d CQs on one channel", queues)
}

// connectedTo returns an end that shares the objects of another one, except for the QP, and is connected to a QP of the same device.
func (t *trial) connectedTo(base *end) *end {
	from, to := &end{target: t.target, share: base}, &end{target: t.target, share: base}
	for _, e := range []*end{from, to} {
		t.ends = append(t.ends, e)
		t.later(e.close)
		t.must("open an end", e.open())
	}
	mtu, err := from.portMTU()
	t.must("query the port", err)
	t.must("connect", from.join(to.own, mtu))
	t.must("connect", to.join(from.own, mtu))
	return from
}
