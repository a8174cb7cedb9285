// SPDX-License-Identifier: Apache-2.0

//go:build linux

package siw

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
)

// TestSendRing posts more requests than the queue has slots, many times, and consumes them as
// the kernel does.
func TestSendRing(t *testing.T) {
	r := newRig(t, 4)
	r.state(provider.QPInit)
	r.qp.SetState(provider.QPRTS)
	r.qp.sq.put, r.qp.sq.published, r.sqGet = ^uint32(0)-5, ^uint32(0)-5, ^uint32(0)-5
	next := uint64(0)
	for id := uint64(0); id < 100; {
		wrs := make([]provider.SendWR, 3)
		for i := range wrs {
			wrs[i] = provider.SendWR{ID: id + uint64(i), Opcode: provider.OpSend, SGList: []provider.SGE{{Addr: id + uint64(i), Length: 90, LKey: 8}}}
		}
		n, err := r.qp.PostSend(wrs)
		id += uint64(n)
		if n < 3 && !errors.Is(err, provider.ErrFull) || n == 3 && err != nil {
			t.Fatalf("PostSend of 3 = %d, %v, want 3, nil, or ErrFull", n, err)
		}
		if got := int(r.qp.sq.put - r.sqGet); n < 3 && got != r.qp.Cap().SendWR {
			t.Fatalf("PostSend = ErrFull with %d requests in the queue, want %d", got, r.qp.Cap().SendWR)
		}
		for range 2 {
			if sqe := r.takeSend(); sqe == nil || sqe.ID != next || sqe.SGE[0] != (abi.SiwSGE{LAddr: next, Length: 90, LKey: 8}) || sqe.NumSGE != 1 || sqe.Opcode != abi.SIW_OP_SEND {
				t.Fatalf("slot of request %d = %+v, want a SEND of 90 bytes", next, sqe)
			}
			next++
		}
	}
}

// TestDoorbell checks that the doorbell rings only when the kernel may have stopped polling the
// queue.
func TestDoorbell(t *testing.T) {
	r := newRig(t, 4)
	r.qp.SetState(provider.QPRTS)
	send := provider.SendWR{Opcode: provider.OpSend}
	step := func(what string, bells int) {
		t.Helper()
		if r.bells != bells {
			t.Fatalf("%s: %d doorbells, want %d", what, r.bells, bells)
		}
	}
	r.send(send)
	step("the first request", 1)
	r.send(send)
	step("the one before not taken", 1)
	r.takeSend()
	r.send(send)
	step("the second not taken", 1)
	r.takeSend()
	r.takeSend()
	r.send(send, send)
	step("all taken", 2)
	r.takeSend()
	r.takeSend()
	r.send(slices.Repeat([]provider.SendWR{send}, r.qp.Cap().SendWR)...)
	step("the whole queue", 3)
	for range r.qp.Cap().SendWR {
		r.takeSend()
	}
	r.qp.BatchBegin()
	if err := r.qp.BatchAdd(&send); err != nil {
		t.Fatalf("qp.BatchAdd: %v", err)
	}
	if r.takeSend() != nil {
		t.Error("the kernel found a batch before BatchPost")
	}
	if err := r.qp.BatchPost(); err != nil {
		t.Fatalf("qp.BatchPost: %v", err)
	}
	step("a batch", 4)
	if r.takeSend() == nil {
		t.Error("the kernel did not find a posted batch")
	}
	r.qp.BatchBegin()
	r.qp.BatchAdd(&send)
	r.qp.BatchDiscard()
	r.qp.BatchBegin()
	if err := r.qp.BatchPost(); err != nil {
		t.Fatalf("qp.BatchPost: %v", err)
	}
	step("nothing", 4)
	if r.takeSend() != nil {
		t.Error("the kernel found a discarded batch")
	}
	// The connection has ended, but the provider has not been informed yet.
	r.bell = syscall.ENOTCONN
	r.send(send)
	step("no connection", 5)
	r.takeSend()
	r.bell = syscall.EIO
	if n, err := r.qp.PostSend([]provider.SendWR{send}); n != 1 || !errors.Is(err, syscall.EIO) {
		t.Errorf("PostSend with a failing doorbell = %d, %v, want 1, EIO", n, err)
	}
	r.takeSend()
}

func TestSendForms(t *testing.T) {
	r := newRig(t, 4)
	r.qp.SetState(provider.QPRTS)
	data := make([]byte, abi.SIW_MAX_INLINE)
	for i := range data {
		data[i] = byte(i + 1)
	}
	sg := []provider.SGE{{Addr: 1, Length: 200, LKey: 3}}
	for _, c := range []struct {
		wr   provider.SendWR
		want abi.SiwSQE
	}{
		{provider.SendWR{ID: 1, Opcode: provider.OpWrite, Flags: provider.SendSignaled, SGList: sg, RemoteAddr: 5, RKey: 6},
			abi.SiwSQE{ID: 1, Flags: abi.SIW_WQE_VALID | abi.SIW_WQE_SIGNALLED, NumSGE: 1, Opcode: abi.SIW_OP_WRITE, RAddr: 5, RKey: 6}},
		{provider.SendWR{ID: 2, Opcode: provider.OpSend, Flags: provider.SendSolicited | provider.SendFence, SGList: sg},
			abi.SiwSQE{ID: 2, Flags: abi.SIW_WQE_VALID | abi.SIW_WQE_SOLICITED | abi.SIW_WQE_READ_FENCE, NumSGE: 1, Opcode: abi.SIW_OP_SEND}},
		{provider.SendWR{ID: 3, Opcode: provider.OpSendInv, InvalidateRKey: 9},
			abi.SiwSQE{ID: 3, Flags: abi.SIW_WQE_VALID, Opcode: abi.SIW_OP_SEND_REMOTE_INV, RKey: 9}},
		{provider.SendWR{ID: 4, Opcode: provider.OpRead, SGList: sg, RemoteAddr: 5, RKey: 6},
			abi.SiwSQE{ID: 4, Flags: abi.SIW_WQE_VALID, NumSGE: 1, Opcode: abi.SIW_OP_READ, RAddr: 5, RKey: 6}},
		{provider.SendWR{ID: 5, Opcode: provider.OpSend, InlineData: []byte{}},
			abi.SiwSQE{ID: 5, Flags: abi.SIW_WQE_VALID, Opcode: abi.SIW_OP_SEND}},
		{provider.SendWR{ID: 6, Opcode: provider.OpWrite, InlineData: data},
			abi.SiwSQE{ID: 6, Flags: abi.SIW_WQE_VALID | abi.SIW_WQE_INLINE, NumSGE: 1, Opcode: abi.SIW_OP_WRITE}},
	} {
		r.send(c.wr)
		got := r.takeSend()
		if got == nil {
			t.Fatalf("%v: no request in the queue", c.wr.Opcode)
		}
		if len(c.wr.InlineData) > 0 {
			if got.SGE[0].Length != uint32(len(data)) || string(abi.Bytes(got)[40:40+len(data)]) != string(data) {
				t.Errorf("inline request = %+v, want the data in it", got)
			}
		} else if c.want.NumSGE == 1 && got.SGE[0] != (abi.SiwSGE{LAddr: 1, Length: 200, LKey: 3}) {
			t.Errorf("%v: element = %+v, want address 1, length 200, key 3", c.wr.Opcode, got.SGE[0])
		}
		got.SGE = [abi.SIW_MAX_SGE]abi.SiwSGE{}
		if *got != c.want {
			t.Errorf("request =\n%+v, want\n%+v", *got, c.want)
		}
	}
}

// TestReadsBefore checks the fences of READs. A completion implies that all earlier requests
// have been done. siw completes the requests after a READ before the READ, unless they have a
// fence.
func TestReadsBefore(t *testing.T) {
	r := newRig(t, 16)
	r.qp.SetState(provider.QPRTS)
	sg := []provider.SGE{{Addr: 1, Length: 2, LKey: 3}}
	wr := func(op provider.SendOpcode, flags provider.SendFlags) provider.SendWR {
		return provider.SendWR{Opcode: op, Flags: flags, SGList: sg}
	}
	const signaled = provider.SendSignaled
	quiet, loud := wr(provider.OpRead, 0), wr(provider.OpRead, signaled)
	fenced := func(wrs ...provider.SendWR) (got string) {
		r.send(wrs...)
		for range wrs {
			if r.takeSend().Flags&abi.SIW_WQE_READ_FENCE != 0 {
				got += "f"
			} else {
				got += "-"
			}
		}
		return got
	}
	for i, c := range []struct {
		wrs  []provider.SendWR
		want string
	}{
		{[]provider.SendWR{wr(provider.OpWrite, signaled), loud, wr(provider.OpSend, signaled)}, "---"},
		{[]provider.SendWR{quiet, wr(provider.OpWrite, 0), wr(provider.OpSend, signaled), wr(provider.OpSend, signaled)}, "--f-"},
		{[]provider.SendWR{quiet, loud, wr(provider.OpWrite, signaled), wr(provider.OpWrite, signaled)}, "--f-"},
		{[]provider.SendWR{quiet, wr(provider.OpWrite, provider.SendFence), wr(provider.OpWrite, signaled)}, "-f-"},
		{[]provider.SendWR{wr(provider.OpReadInv, 0), wr(provider.OpWrite, signaled)}, "-f"},
	} {
		if got := fenced(c.wrs...); got != c.want {
			t.Errorf("case %d: fences = %s, want %s", i, got, c.want)
		}
	}
	fenced(quiet)
	r.qp.BatchBegin()
	w := wr(provider.OpWrite, signaled)
	if err := r.qp.BatchAdd(&w); err != nil {
		t.Fatalf("qp.BatchAdd: %v", err)
	}
	r.qp.BatchDiscard()
	if got := fenced(w, w); got != "f-" {
		t.Errorf("fences after a discarded batch = %s, want f-", got)
	}
}

// TestRefusedSends posts requests for which siw would fail the connection, or which it would
// never take out of the queue.
func TestRefusedSends(t *testing.T) {
	r := newRig(t, 4)
	r.qp.SetState(provider.QPRTS)
	r.depths[1] = 0
	one := []provider.SGE{{Length: 1}}
	for name, c := range map[string]struct {
		wr   provider.SendWR
		want error
	}{
		"atomic":           {provider.SendWR{Opcode: provider.OpFetchAdd, SGList: one}, errors.ErrUnsupported},
		"immediate":        {provider.SendWR{Opcode: provider.OpSendImm}, errors.ErrUnsupported},
		"write immediate":  {provider.SendWR{Opcode: provider.OpWriteImm}, errors.ErrUnsupported},
		"no opcode":        {provider.SendWR{Opcode: 99}, errors.ErrUnsupported},
		"inline too long":  {provider.SendWR{Opcode: provider.OpSend, InlineData: make([]byte, 81)}, syscall.EINVAL},
		"inline read":      {provider.SendWR{Opcode: provider.OpRead, InlineData: make([]byte, 1)}, syscall.EINVAL},
		"inline and inv":   {provider.SendWR{Opcode: provider.OpSendInv, InlineData: make([]byte, 1)}, syscall.EINVAL},
		"too many parts":   {provider.SendWR{Opcode: provider.OpSend, SGList: make([]provider.SGE, 5)}, syscall.EINVAL},
		"read of parts":    {provider.SendWR{Opcode: provider.OpRead, SGList: make([]provider.SGE, 2)}, syscall.EINVAL},
		"read of nothing":  {provider.SendWR{Opcode: provider.OpRead}, syscall.EINVAL},
		"fenced read":      {provider.SendWR{Opcode: provider.OpRead, SGList: one, Flags: provider.SendFence}, syscall.EINVAL},
		"read, depth of 0": {provider.SendWR{Opcode: provider.OpRead, SGList: one}, syscall.EINVAL},
		"long message":     {provider.SendWR{Opcode: provider.OpSend, SGList: []provider.SGE{{Length: 1 << 31}}}, syscall.EMSGSIZE},
	} {
		if n, err := r.qp.PostSend([]provider.SendWR{{ID: 1, Opcode: provider.OpSend}, c.wr, {ID: 2, Opcode: provider.OpSend}}); n != 1 || !errors.Is(err, c.want) {
			t.Errorf("%s: PostSend = %d, %v, want 1, %v", name, n, err, c.want)
		}
		if r.takeSend() == nil || r.takeSend() != nil {
			t.Errorf("%s: the queue does not hold exactly the first request", name)
		}
	}
}

func TestStates(t *testing.T) {
	r := newRig(t, 4)
	for s := provider.QPReset; s.Valid(); s++ {
		if s == provider.QPErr {
			continue // see TestFlush
		}
		r.qp.state.Store(uint32(s))
		var se *provider.QPStateError
		n, err := r.qp.PostSend([]provider.SendWR{{Opcode: provider.OpSend}})
		if ok := s == provider.QPRTS; ok != (err == nil) || !ok && (!errors.As(err, &se) || se.State != s || !errors.Is(err, syscall.EINVAL) || n != 0) {
			t.Errorf("PostSend in %v = %d, %v, want nil in RTS, otherwise a QPStateError", s, n, err)
		}
		if got := r.takeSend() != nil; got != (err == nil) {
			t.Errorf("PostSend in %v: request in the queue = %v, want %v", s, got, err == nil)
		}
		r.qp.BatchBegin()
		if err := r.qp.BatchPost(); (err == nil) != (s == provider.QPRTS) {
			t.Errorf("BatchPost in %v = %v, want nil only in RTS", s, err)
		}
		_, err = r.qp.PostRecv([]provider.RecvWR{{}})
		if ok := s == provider.QPInit || s == provider.QPRTR || s == provider.QPRTS; ok != (err == nil) || !ok && !errors.As(err, &se) {
			t.Errorf("PostRecv in %v = %v, want nil only in INIT, RTR and RTS", s, err)
		}
	}
	r.qp.state.Store(uint32(provider.QPErr))
	if r.qp.SetState(provider.QPRTS); r.qp.State() != provider.QPErr {
		t.Errorf("state after SetState(RTS) in ERR = %v, want ERR", r.qp.State())
	}
}

// TestStateChanges checks state changes that siw accepts without making them.
func TestStateChanges(t *testing.T) {
	for _, c := range []struct {
		from, to provider.QPState
		ok       bool
	}{
		{provider.QPReset, provider.QPInit, true}, {provider.QPInit, provider.QPReset, true}, {provider.QPInit, provider.QPErr, true},
		{provider.QPRTS, provider.QPRTS, true}, {provider.QPRTS, provider.QPSQD, true}, {provider.QPSQD, provider.QPErr, true},
		{provider.QPErr, provider.QPErr, true}, {provider.QPErr, provider.QPReset, false}, {provider.QPErr, provider.QPInit, false},
		{provider.QPRTS, provider.QPReset, false}, {provider.QPRTS, provider.QPRTR, false}, {provider.QPSQD, provider.QPRTS, false},
	} {
		r := newRig(t, 4)
		r.qp.state.Store(uint32(c.from))
		err := r.qp.Modify(&provider.QPAttr{State: c.to}, provider.QPAttrState)
		want := c.from
		if c.ok {
			want = c.to
		}
		if (err == nil) != c.ok || !c.ok && !errors.Is(err, syscall.EINVAL) || r.qp.State() != want {
			t.Errorf("%v to %v: Modify = %v, state = %v, want state %v", c.from, c.to, err, r.qp.State(), want)
		}
	}
}

// TestShortMessages checks that the provider makes two elements of a short message in one. siw would corrupt its bytes at
// the end of a page, and may end the connection.
func TestShortMessages(t *testing.T) {
	r := newRig(t, 4)
	r.qp.SetState(provider.QPRTS)
	for _, c := range []struct {
		op   provider.SendOpcode
		sg   []provider.SGE
		want []abi.SiwSGE
	}{
		{provider.OpSend, []provider.SGE{{Addr: 8180, Length: 21, LKey: 7}}, []abi.SiwSGE{{LAddr: 8180, Length: 12, LKey: 7}, {LAddr: 8192, Length: 9, LKey: 7}}},
		{provider.OpWrite, []provider.SGE{{Addr: 8191, Length: 32, LKey: 7}}, []abi.SiwSGE{{LAddr: 8191, Length: 1, LKey: 7}, {LAddr: 8192, Length: 31, LKey: 7}}},
		{provider.OpWrite, []provider.SGE{{}, {Addr: 8191, Length: 2, LKey: 7}}, []abi.SiwSGE{{LAddr: 8191, Length: 1, LKey: 7}, {LAddr: 8192, Length: 1, LKey: 7}}},
		{provider.OpSend, []provider.SGE{{Addr: 8180, Length: 12, LKey: 7}}, []abi.SiwSGE{{LAddr: 8180, Length: 1, LKey: 7}, {LAddr: 8181, Length: 11, LKey: 7}}},
		{provider.OpSend, []provider.SGE{{Addr: 8192, Length: 32, LKey: 7}}, []abi.SiwSGE{{LAddr: 8192, Length: 1, LKey: 7}, {LAddr: 8193, Length: 31, LKey: 7}}},
		{provider.OpSend, []provider.SGE{{Addr: 8191, Length: 1, LKey: 7}}, []abi.SiwSGE{{LAddr: 8191, Length: 1, LKey: 7}, {LAddr: 8192, LKey: 7}}},
		{provider.OpSend, []provider.SGE{{Addr: 8180, Length: 33, LKey: 7}}, []abi.SiwSGE{{LAddr: 8180, Length: 33, LKey: 7}}},
		{provider.OpSend, []provider.SGE{{Addr: 1, Length: 1}, {Addr: 8180, Length: 21, LKey: 7}}, []abi.SiwSGE{{LAddr: 1, Length: 1}, {LAddr: 8180, Length: 21, LKey: 7}}},
		{provider.OpRead, []provider.SGE{{Addr: 8180, Length: 21, LKey: 7}}, []abi.SiwSGE{{LAddr: 8180, Length: 21, LKey: 7}}},
	} {
		r.send(provider.SendWR{Opcode: c.op, SGList: c.sg})
		got := r.takeSend()
		if got == nil || int(got.NumSGE) != len(c.want) || !slices.Equal(got.SGE[:got.NumSGE], c.want) {
			t.Errorf("%v of %+v = %+v, want elements %+v", c.op, c.sg, got, c.want)
		}
	}
}

// TestEmptyElements checks that empty elements are left out. siw of Linux 6.1 oopses on an
// empty element.
func TestEmptyElements(t *testing.T) {
	var dst [6]abi.SiwSGE
	n := putSGEs(dst[:], []provider.SGE{{Addr: 1}, {Addr: 2, Length: 3, LKey: 4}, {Addr: 5}, {Addr: 6, Length: 7, LKey: 8}})
	if n != 2 || dst[0].LAddr != 2 || dst[0].Length != 3 || dst[0].LKey != 4 || dst[1].LAddr != 6 {
		t.Errorf("putSGEs = %d, %+v, want 2 elements without the empty ones", n, dst)
	}
	if n := putSGEs(dst[:], []provider.SGE{{Addr: 1}}); n != 0 {
		t.Errorf("putSGEs of an empty element = %d, want 0", n)
	}
}
