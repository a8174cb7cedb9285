// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"bytes"
	"errors"
	"syscall"
	"testing"

	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
)

// TestPostOpcode posts a WQE with another opcode, to a register of one QP and to a shared one.
func TestPostOpcode(t *testing.T) {
	for name, legacy := range map[string]bool{"own": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			r := newSendRig(t, func(k *mlx5test.Kernel) { k.LegacyUAR = legacy })
			q, dev := r.qp(r.config(provider.RC))
			wr := provider.SendWR{ID: 7, Opcode: provider.OpWrite, SGList: sge(8), Flags: provider.SendSignaled}
			const size = 3 * segment
			post(t, q, wr)
			want := dev.SendWQE(0, size)
			r.poison(dev)
			want[wqeOpcode] = 0x3f
			want[2]++ // the index of the block
			if err := q.PostOpcode(&wr, 0x3f); err != nil {
				t.Fatalf("PostOpcode: %v", err)
			}
			if got := dev.SendWQE(1, size); !bytes.Equal(got, want) {
				t.Errorf("PostOpcode wrote % x, want % x", got, want)
			}
			if _, _, b := r.rung(); !bytes.HasPrefix(want, b[:8]) {
				t.Errorf("PostOpcode wrote % x to the register, want a prefix of % x", b, want)
			}
			if n := dev.SendCounter(); n != 2 {
				t.Errorf("SendCounter() = %d after PostOpcode, want 2", n)
			}
			if st := q.Stats(); st.Sends[provider.OpWrite].Operations != 2 || st.Doorbells != 2 {
				t.Errorf("Stats() = %+v after PostOpcode, want 2 WRITEs and 2 doorbells", st)
			}
		})
	}
}

// TestPostOpcodeRefused checks the errors of PostOpcode, after which the queue takes other requests.
func TestPostOpcodeRefused(t *testing.T) {
	r := newSendRig(t, nil)
	q, dev := r.qp(r.config(provider.RC))
	wr := provider.SendWR{Opcode: provider.OpSend, SGList: sge(8)}
	if err := q.PostOpcode(&provider.SendWR{Opcode: provider.OpLSO}, 0x3f); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("PostOpcode(OpLSO) = %v, want EOPNOTSUPP", err)
	}
	for q.sq.head < q.sq.maxPost {
		if err := q.PostOpcode(&wr, 0x3f); err != nil {
			t.Fatalf("PostOpcode number %d: %v", q.sq.head, err)
		}
	}
	if err := q.PostOpcode(&wr, 0x3f); !errors.Is(err, provider.ErrFull) {
		t.Errorf("PostOpcode to a full queue = %v, want ErrFull", err)
	}
	q.sq.tail = q.sq.head
	q.SetState(provider.QPReset)
	before := dev.SendCounter()
	if err := q.PostOpcode(&wr, 0x3f); dev.SendCounter() != before {
		t.Errorf("PostOpcode in RESET = %v with counter %d, want %d", err, dev.SendCounter(), before)
	} else if _, ok := errors.AsType[*provider.QPStateError](err); !ok {
		t.Errorf("PostOpcode in RESET = %v, want a QPStateError", err)
	}
	q.SetState(provider.QPRTS)
	post(t, q, wr)
}
