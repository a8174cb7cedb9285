// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"fmt"
	"sync"
	"testing"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestVMQPsAtOnce creates 512 QPs from 64 goroutines at once, and closes them at once. Their numbers must be different. On
// RoCE each QP is connected to another QP of its goroutine, and receives a message from it.
func TestVMQPsAtOnce(t *testing.T) {
	const goroutines, each = 64, 8
	host := vmtest.Hosts(t, 1)[0]
	vmtest.NoLeaks(t)
	base := newEnd(t, verbs.DefaultHost(), host, verbs.QPCap{})
	groups := make([]qpGroup, goroutines)
	inParallel := func(what string, f func(g *qpGroup) error) {
		t.Helper()
		start, ended := make(chan struct{}), sync.WaitGroup{}
		for i := range groups {
			ended.Go(func() {
				<-start
				if err := f(&groups[i]); err != nil {
					t.Errorf("goroutine %d: %s: %v", i, what, err)
				}
			})
		}
		close(start)
		ended.Wait()
	}
	defer inParallel("close", (*qpGroup).close)
	inParallel("create", func(g *qpGroup) error { return g.create(base, each) })
	if t.Failed() {
		return
	}
	numbers := map[uint32]bool{}
	for i := range groups {
		for _, e := range groups[i].ends {
			numbers[e.qp.Num()] = true
		}
	}
	if len(numbers) != goroutines*each {
		t.Errorf("%d QPs have %d numbers, want as many", goroutines*each, len(numbers))
	}
	if !vmtest.IWARP() {
		inParallel("exchange", func(g *qpGroup) error { return g.exchange(t, base) })
	}
}

// qpGroup has the QPs of a goroutine, and their CQ.
type qpGroup struct {
	cq   *verbs.CQ
	ends []*end
}

// create creates n QPs on the PD of an end.
func (g *qpGroup) create(base *end, n int) (err error) {
	if g.cq, err = base.dev.CreateCQ(verbs.CQConfig{Entries: 4 * n}); err != nil {
		return err
	}
	for range n {
		e := *base
		e.cq = g.cq
		e.qp, err = base.pd.CreateQP(verbs.QPConfig{SendCQ: g.cq, RecvCQ: g.cq, Cap: verbs.QPCap{SendWR: 2, RecvWR: 2, Inline: 8}})
		if err != nil {
			return err
		}
		g.ends = append(g.ends, &e)
	}
	return nil
}

// exchange connects pairs of QPs, and sends a message in each direction.
func (g *qpGroup) exchange(t *testing.T, base *end) error {
	for i, e := range g.ends {
		peer := g.ends[i^1]
		for _, step := range []func() (verbs.QPAttr, verbs.QPAttrMask){e.toInit, func() (verbs.QPAttr, verbs.QPAttrMask) { return e.toRTR(peer) }, e.toRTS} {
			a, mask := step()
			if err := e.qp.Modify(&a, mask); err != nil {
				return err
			}
		}
		if _, err := e.qp.PostRecv([]verbs.RecvWR{{ID: uint64(i), SGList: []verbs.SGE{base.buf.Slice(0, 8)}}}); err != nil {
			return err
		}
	}
	for _, e := range g.ends {
		if _, err := e.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, InlineData: []byte("at once")}}); err != nil {
			return err
		}
	}
	received, ctx := map[uint64]bool{}, deadline(t)
	wcs := make([]verbs.WC, 4)
	for done := 0; done < 2*len(g.ends); {
		n, err := g.cq.Wait(ctx, wcs)
		if err != nil {
			return fmt.Errorf("after %d completions: %w", done, err)
		}
		for _, wc := range wcs[:n] {
			if wc.Err() != nil {
				return wc.Err()
			}
			if wc.Opcode == verbs.WCRecv {
				received[wc.ID] = true
			}
		}
		done += n
	}
	if len(received) != len(g.ends) {
		return fmt.Errorf("%d of %d QPs have received a message", len(received), len(g.ends))
	}
	return nil
}

// close closes the QPs, and then the CQ.
func (g *qpGroup) close() error {
	for _, e := range g.ends {
		if err := e.qp.Close(); err != nil {
			return err
		}
	}
	if g.cq == nil {
		return nil
	}
	return g.cq.Close()
}
