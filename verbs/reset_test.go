// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"sync"
	"testing"

	"purerdma/verbs"
)

// TestResetWhilePolling resets QPs and connects them again while another goroutine polls their
// CQ. The race detector reports a reset without the locks of the poller.
func TestResetWhilePolling(t *testing.T) {
	mlx5Routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			wcs := make([]verbs.WC, 4)
			for ctx.Err() == nil {
				if _, err := r.cq.Wait(ctx, wcs); err != nil && ctx.Err() == nil {
					t.Errorf("CQ.Wait: %v", err)
					return
				}
			}
		})
		for range 20 {
			for i := range 4 {
				r.recv(t, verbs.RecvWR{ID: uint64(i), SGList: []verbs.SGE{r.buf.Slice(0, 64)}})
			}
			l.send(t, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{l.buf.Slice(0, 8)}})
			if wc := l.collect(t, 1)[0]; wc.Status != verbs.WCSuccess {
				t.Errorf("status of the send = %v, want success", wc.Status)
			}
			for _, e := range []*end{r, l} {
				modify(t, e.qp, verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
				modify(t, e.qp, verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState)
			}
			connect(t, l, r)
		}
		cancel()
		wg.Wait()
	})
}
