// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"purerdma/verbs"
)

// udPair returns two ends that can exchange datagrams.
func (rt *route) udPair(t *testing.T) (*end, *end) {
	t.Helper()
	l := newEndWith(t, rt.h, rt.a, verbs.QPConfig{Type: verbs.UD})
	r := newEndWith(t, rt.h, rt.b, verbs.QPConfig{Type: verbs.UD})
	connect(t, l, r)
	return l, r
}

func (e *end) ah(t *testing.T, attr verbs.AHAttr) *verbs.AH {
	t.Helper()
	ah, err := e.pd.CreateAH(attr)
	if err != nil {
		t.Fatalf("PD.CreateAH: %v", err)
	}
	closer(t, ah)
	return ah
}

// TestVMDatagrams sends a datagram, replies to its source address, and repeats this. A
// goroutine that waits for a completion sleeps until the event.
func TestVMDatagrams(t *testing.T) {
	fullRoutes(t, func(t *testing.T, rt *route) {
		l, r := rt.udPair(t)
		l.cq.SetSpin(0)
		r.cq.SetSpin(0)
		there := l.ah(t, l.to(r.gid))
		var b verbs.Batch
		b.Reset(l.qp)
		for i := range 20 {
			ping, pong := fmt.Sprintf("ping %d", i), fmt.Sprintf("pong %d", i)
			l.recv(t, verbs.RecvWR{ID: 1, SGList: []verbs.SGE{l.buf.Slice(0, 200)}})
			r.recv(t, verbs.RecvWR{ID: 1, SGList: []verbs.SGE{r.buf.Slice(0, 200)}})
			if i%2 == 0 {
				l.send(t, verbs.SendWR{ID: 2, Opcode: verbs.OpSendImm, ImmData: uint32(i), Flags: verbs.SendSignaled, InlineData: []byte(ping),
					AH: there, RemoteQPN: r.qp.Num(), RemoteQKey: qkey})
			} else {
				copy(l.buf.Bytes()[400:], ping)
				b.Add(&verbs.SendWR{ID: 2, Opcode: verbs.OpSendImm, ImmData: uint32(i), Flags: verbs.SendSignaled, SGList: []verbs.SGE{l.buf.Slice(400, len(ping))},
					AH: there, RemoteQPN: r.qp.Num(), RemoteQKey: qkey})
				if err := b.Post(); err != nil {
					t.Fatalf("Batch.Post: %v", err)
				}
			}
			l.ok(t, 1)
			wc := r.ok(t, 1)[1]
			if wc.SrcQP != l.qp.Num() || int(wc.ByteLen) != verbs.GRHLen+len(ping) || wc.ImmData != uint32(i) || wc.Flags&verbs.WCGRH == 0 {
				t.Fatalf("completion of the receive = %+v, want a datagram of QP %#x with a GRH", wc, l.qp.Num())
			}
			if got := string(r.buf.Bytes()[verbs.GRHLen:wc.ByteLen]); got != ping {
				t.Fatalf("received %q, want %q", got, ping)
			}
			attr, err := r.dev.AHAttrFromWC(1, &wc, r.buf.Bytes()[:verbs.GRHLen])
			if err != nil {
				t.Fatalf("Device.AHAttrFromWC: %v", err)
			}
			if attr.GRH.DGID != l.gid || !attr.Global || attr.GRH.SGIDIndex != r.gidx || attr.Port != 1 || attr.SL != 0 {
				t.Fatalf("AHAttrFromWC = %+v, want GID %v and SL 0", attr, l.gid)
			}
			back, err := r.pd.CreateAH(attr)
			if err != nil {
				t.Fatalf("PD.CreateAH: %v", err)
			}
			copy(r.buf.Bytes()[300:], pong)
			r.send(t, verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{r.buf.Slice(300, len(pong))},
				AH: back, RemoteQPN: wc.SrcQP, RemoteQKey: qkey})
			r.ok(t, 1)
			if wc := l.ok(t, 1)[1]; string(l.buf.Bytes()[verbs.GRHLen:wc.ByteLen]) != pong {
				t.Fatalf("received %q, want %q", l.buf.Bytes()[verbs.GRHLen:wc.ByteLen], pong)
			}
			for range 2 {
				if err := back.Close(); err != nil {
					t.Fatalf("AH.Close: %v", err)
				}
			}
		}
	})
}

// TestVMDatagramMistakes posts invalid datagrams, and datagrams that no QP receives.
func TestVMDatagramMistakes(t *testing.T) {
	fullRoutes(t, func(t *testing.T, rt *route) {
		l, r := rt.udPair(t)
		there := l.ah(t, l.to(r.gid))
		gone := l.ah(t, l.to(r.gid))
		if err := gone.Close(); err != nil {
			t.Fatalf("AH.Close: %v", err)
		}
		var b verbs.Batch
		b.Reset(l.qp)
		b.Send(1, l.buf.Slice(0, 8), 0) // without an address handle
		if err := b.Post(); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("Post of a datagram without an address handle = %v, want EINVAL", err)
		}
		var none *verbs.AH
		for what, wr := range map[string]verbs.SendWR{
			"without AH":       {Opcode: verbs.OpSend},
			"with a nil AH":    {Opcode: verbs.OpSend, AH: none},
			"with a closed AH": {Opcode: verbs.OpSend, AH: gone},
			"WRITE":            {Opcode: verbs.OpWrite, AH: there},
			"READ":             {Opcode: verbs.OpRead, AH: there},
			"SEND_WITH_INV":    {Opcode: verbs.OpSendInv, AH: there},
			"no operation":     {Opcode: 77, AH: there},
		} {
			n, err := l.qp.PostSend([]verbs.SendWR{wr})
			if n != 0 || !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EOPNOTSUPP) {
				t.Errorf("PostSend of %s = %d, %v, want 0, EINVAL or EOPNOTSUPP", what, n, err)
			}
		}
		if _, err := l.pd.CreateAH(verbs.AHAttr{Port: 1}); err == nil {
			t.Error("CreateAH without a GID on RoCE succeeded")
		}
		if _, err := l.pd.CreateAH(verbs.AHAttr{Port: 9, Global: true}); err == nil {
			t.Error("CreateAH for port 9 succeeded")
		}
		// Datagrams complete even if no QP receives them. These go to a QP with another Q_Key,
		// to an unknown QP, and to a QP without a posted receive.
		const third = "a third."
		sge := []verbs.SGE{l.buf.Slice(0, 8)}
		copy(l.buf.Bytes(), third)
		l.send(t,
			verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: sge, AH: there, RemoteQPN: r.qp.Num(), RemoteQKey: qkey + 1},
			verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: sge, AH: there, RemoteQPN: 0xfffff0, RemoteQKey: qkey},
			verbs.SendWR{ID: 3, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: sge, AH: there, RemoteQPN: r.qp.Num(), RemoteQKey: qkey},
		)
		l.ok(t, 3)
		// The third datagram may arrive only now. It then takes one of the receives.
		r.recv(t, verbs.RecvWR{ID: 1, SGList: []verbs.SGE{r.buf.Slice(0, 200)}}, verbs.RecvWR{ID: 2, SGList: []verbs.SGE{r.buf.Slice(200, 200)}})
		copy(l.buf.Bytes(), "the last")
		l.send(t, verbs.SendWR{ID: 4, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: sge, AH: there, RemoteQPN: r.qp.Num(), RemoteQKey: qkey})
		l.ok(t, 1)
		got := r.ok(t, 1)
		wc, at := got[1], 0
		if late := string(r.buf.Bytes()[verbs.GRHLen:wc.ByteLen]); late == third {
			if len(got) == 1 {
				got = r.ok(t, 1)
			}
			wc, at = got[2], 200
		}
		if got := string(r.buf.Bytes()[at+verbs.GRHLen : at+int(wc.ByteLen)]); got != "the last" {
			t.Errorf("received %q, want \"the last\"", got)
		}
	})
}

// TestVMMulticast attaches two QPs to a group, sends to it, and detaches one.
func TestVMMulticast(t *testing.T) {
	fullRoutes(t, func(t *testing.T, rt *route) {
		l, r := rt.udPair(t)
		// All hosts are members of 224.0.0.1, so no QP needs to join.
		group := verbs.GID{10: 0xff, 11: 0xff, 12: 224, 15: 1}
		for _, e := range []*end{l, r} {
			if err := e.qp.AttachMulticast(group, 0); err != nil {
				t.Fatalf("QP.AttachMulticast: %v", err)
			}
		}
		toAll := l.ah(t, l.to(group))
		for _, e := range []*end{l, r} {
			e.recv(t, verbs.RecvWR{ID: 1, SGList: []verbs.SGE{e.buf.Slice(0, 200)}})
		}
		l.send(t, verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, InlineData: []byte("to all"),
			AH: toAll, RemoteQPN: verbs.MulticastQPN, RemoteQKey: qkey})
		if wc := r.ok(t, 1)[1]; string(r.buf.Bytes()[verbs.GRHLen:wc.ByteLen]) != "to all" || wc.SrcQP != l.qp.Num() {
			t.Errorf("received %q with completion %+v, want \"to all\" of QP l", r.buf.Bytes()[verbs.GRHLen:wc.ByteLen], wc)
		}
		for _, e := range []*end{l, r} {
			if err := e.qp.AttachMulticast(verbs.GID{0: 0xfe}, 0); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("AttachMulticast of a unicast address = %v, want EINVAL", err)
			}
		}
		if err := r.qp.DetachMulticast(group, 0); err != nil {
			t.Errorf("QP.DetachMulticast: %v", err)
		}
		if err := r.qp.DetachMulticast(group, 0); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("second DetachMulticast = %v, want EINVAL", err)
		}
		// l stays in the group until its QP is closed.
	})
}
