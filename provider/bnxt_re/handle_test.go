// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bnxtre

import (
	"io"
	"sync/atomic"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/provider"
)

// TestCommandKeepsHandle closes each object during a command that names its handle. Close waits for the command, because the
// kernel may assign the handle of a destroyed object to another one.
func TestCommandKeepsHandle(t *testing.T) {
	for name, tc := range map[string]struct {
		command uint64
		use     func(e *end, s *srq) (object io.Closer, run func() error)
	}{
		"QP.Modify": {abi.IB_USER_VERBS_CMD_MODIFY_QP, func(e *end, _ *srq) (io.Closer, func() error) {
			return e.q, func() error { return e.q.Modify(&provider.QPAttr{State: provider.QPErr}, provider.QPAttrState) }
		}},
		"QP.Query": {abi.IB_USER_VERBS_CMD_QUERY_QP, func(e *end, _ *srq) (io.Closer, func() error) {
			return e.q, func() error { _, err := e.q.Query(); return err }
		}},
		"failing QP": {abi.IB_USER_VERBS_CMD_MODIFY_QP, func(e *end, _ *srq) (io.Closer, func() error) {
			return e.q, func() error { e.q.end("test", e.q.resets.Load()); return nil }
		}},
		"CQ.Resize": {abi.IB_USER_VERBS_CMD_RESIZE_CQ, func(e *end, _ *srq) (io.Closer, func() error) {
			return e.c, func() error { return e.c.Resize(1000) }
		}},
		"end of CQ.Resize": {abi.IB_USER_VERBS_CMD_POLL_CQ, func(e *end, _ *srq) (io.Closer, func() error) {
			return e.c, func() error { return e.c.Resize(1000) }
		}},
		"SRQ.Modify": {abi.IB_USER_VERBS_CMD_MODIFY_SRQ, func(_ *end, s *srq) (io.Closer, func() error) {
			return s, func() error { return s.Modify(&provider.SRQAttr{Limit: 1}, provider.SRQAttrLimit) }
		}},
		"SRQ.Query": {abi.IB_USER_VERBS_CMD_QUERY_SRQ, func(_ *end, s *srq) (io.Closer, func() error) {
			return s, func() error { _, err := s.Query(); return err }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, chips["P7"])
			e := r.connected(t, provider.QPCap{SendWR: 2})
			made, err := r.ctx.CreateSRQ(&provider.SRQConfig{PD: r.pd, MaxWR: 4})
			if err != nil {
				t.Fatalf("Context.CreateSRQ: %v", err)
			}
			object, run := tc.use(e, made.(*srq))
			if object == e.c { // the kernel does not destroy the CQ of a QP
				if err := e.q.Close(); err != nil {
					t.Fatalf("QP.Close: %v", err)
				}
			}
			var destroyed atomic.Bool
			r.onEnd = func() { destroyed.Store(true) }
			closed, commands := make(chan error, 1), 0
			r.onInvoke = func(num uint64) {
				if num != tc.command {
					return
				}
				if commands++; commands == 1 {
					go func() { closed <- object.Close() }()
					time.Sleep(20 * time.Millisecond)
				}
				if destroyed.Load() {
					t.Error("Close destroyed the object during a command that names it")
				}
			}
			if err := run(); err != nil {
				t.Errorf("call during Close = %v, want nil", err)
			}
			if commands == 0 {
				t.Error("the call ran no command")
				return
			}
			if err := <-closed; err != nil || !destroyed.Load() {
				t.Errorf("Close = %v, destroyed %v, want nil, true", err, destroyed.Load())
			}
			r.onInvoke, r.onEnd = nil, nil
			if err := made.Close(); err != nil {
				t.Errorf("SRQ.Close: %v", err)
			}
		})
	}
}
