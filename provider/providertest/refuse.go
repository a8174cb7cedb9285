// SPDX-License-Identifier: Apache-2.0

package providertest

import (
	"errors"
	"net"
	"runtime"
	"syscall"
	"testing"

	"purerdma/provider"
)

// testUnsupported posts the unsupported operations.
func (s *Suite) testUnsupported(t *testing.T) {
	l, r := s.Pair(t, provider.QPCap{SendWR: 8, RecvWR: 8, SendSGE: 1, RecvSGE: 1})
	for op := range provider.SendOpcode(40) {
		if op == 0 || s.has(op) {
			continue
		}
		n, err := l.QP.PostSend([]provider.SendWR{{Opcode: op, RemoteAddr: r.Mem.Addr, RKey: r.Mem.RKey, SGList: []provider.SGE{l.Mem.sge(0, 8)}}})
		if n != 0 || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v: QP.PostSend = %d, %v, want 0, errors.ErrUnsupported", op, n, err)
		}
	}
	s.works(t, l, r)
}

// works checks that a connection works.
func (s *Suite) works(t *testing.T, l, r *End) {
	t.Helper()
	recv(t, r, provider.RecvWR{ID: 5, SGList: []provider.SGE{r.Mem.sge(0, 8)}})
	send(t, l, provider.SendWR{ID: 6, Opcode: provider.OpSend, Flags: provider.SendSignaled, SGList: []provider.SGE{l.Mem.sge(0, 8)}})
	if wc := s.ok(t, l, 1)[0]; wc.ID != 6 {
		t.Errorf("completion of the send = %+v, want ID 6", wc)
	}
	if wc := s.ok(t, r, 1)[0]; wc.ID != 5 || wc.ByteLen != 8 {
		t.Errorf("completion of the receive = %+v, want ID 5 with 8 bytes", wc)
	}
}

// testFull posts more requests than the queue has slots. The requests that fit must be posted,
// and none may be lost.
func (s *Suite) testFull(t *testing.T) {
	l, r := s.Pair(t, provider.QPCap{SendWR: 10, RecvWR: 10, SendSGE: 1, RecvSGE: 1})
	room := r.QP.Cap().RecvWR
	if n, err := r.QP.PostRecv(make([]provider.RecvWR, room+3)); n != room || !errors.Is(err, provider.ErrFull) {
		t.Fatalf("PostRecv of %d = %d, %v, want %d, ErrFull", room+3, n, err, room)
	}
	posted, done := 0, 0
	for done < 200 {
		wr := []provider.SendWR{{ID: uint64(posted), Opcode: provider.OpWrite, Flags: provider.SendSignaled,
			RemoteAddr: r.Mem.Addr, RKey: r.Mem.RKey, SGList: []provider.SGE{l.Mem.sge(0, 4096)}}}
		n := 0
		if posted < 200 && posted-done < l.CQ.Entries() {
			var err error
			if n, err = l.QP.PostSend(wr); err != nil && !errors.Is(err, provider.ErrFull) {
				t.Fatalf("QP.PostSend: %v, want nil or ErrFull", err)
			}
			posted += n
		}
		if n == 0 {
			if wc := s.ok(t, l, 1)[0]; wc.ID != uint64(done) {
				t.Fatalf("completion = %+v, want ID %d", wc, done)
			}
			done++
		}
	}
}

// testRefused posts invalid requests, alone and after valid requests.
func (s *Suite) testRefused(t *testing.T) {
	l, r := s.Pair(t, provider.QPCap{SendWR: 8, RecvWR: 8, SendSGE: 2, RecvSGE: s.recvSGE(2), Inline: 16})
	c := l.QP.Cap()
	good := provider.SendWR{ID: 1, Opcode: provider.OpWrite, Flags: provider.SendSignaled, RemoteAddr: r.Mem.Addr, RKey: r.Mem.RKey, SGList: []provider.SGE{l.Mem.sge(0, 8)}}
	huge := provider.SGE{Length: 1<<32 - 1}
	for what, wr := range map[string]provider.SendWR{
		"too many elements": {Opcode: provider.OpSend, SGList: make([]provider.SGE, c.SendSGE+1)},
		"too much inline":   {Opcode: provider.OpSend, InlineData: make([]byte, c.Inline+1)},
		"inline read":       {Opcode: provider.OpRead, InlineData: make([]byte, 8)},
		"8 GiB":             {Opcode: provider.OpWrite, SGList: []provider.SGE{huge, huge}},
		"no operation":      {RemoteAddr: r.Mem.Addr, RKey: r.Mem.RKey, SGList: []provider.SGE{l.Mem.sge(0, 8)}},
		"inline nothing":    {RemoteAddr: r.Mem.Addr, RKey: r.Mem.RKey, InlineData: make([]byte, 8)},
	} {
		for before := range 2 {
			wrs := []provider.SendWR{good, wr, good}[1-before:]
			n, err := l.QP.PostSend(wrs)
			if n != before || !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EMSGSIZE) {
				t.Errorf("PostSend of %s after %d valid requests = %d, %v, want %d, EINVAL or EMSGSIZE", what, before, n, err, before)
			}
			s.ok(t, l, n)
		}
	}
	for what, wr := range map[string]provider.RecvWR{
		"too many elements": {SGList: make([]provider.SGE, r.QP.Cap().RecvSGE+1)},
		"8 GiB":             {SGList: []provider.SGE{huge, huge}},
	} {
		if n, err := r.QP.PostRecv([]provider.RecvWR{wr}); n != 0 || !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EMSGSIZE) {
			t.Errorf("PostRecv of %s = %d, %v, want 0, EINVAL or EMSGSIZE", what, n, err)
		}
	}
	if n, err := l.QP.PostSend(nil); n != 0 || err != nil {
		t.Errorf("PostSend(nil) = %d, %v, want 0, nil", n, err)
	}
	s.works(t, l, r)
}

// testBatch builds batches that it discards or posts.
func (s *Suite) testBatch(t *testing.T) {
	l, r := s.Pair(t, provider.QPCap{SendWR: 8, RecvWR: 8, SendSGE: 1, RecvSGE: 1, Inline: 16})
	write := func(id uint64, b byte) *provider.SendWR {
		return &provider.SendWR{ID: id, Opcode: provider.OpWrite, Flags: provider.SendSignaled, RemoteAddr: r.Mem.Addr, RKey: r.Mem.RKey, InlineData: []byte{b}}
	}
	l.QP.BatchBegin()
	if err := l.QP.BatchAdd(write(1, 1)); err != nil {
		t.Errorf("QP.BatchAdd: %v", err)
	}
	l.QP.BatchDiscard()
	l.QP.BatchBegin()
	if err := l.QP.BatchAdd(write(2, 2)); err != nil {
		t.Errorf("QP.BatchAdd: %v", err)
	}
	if err := l.QP.BatchAdd(&provider.SendWR{Opcode: 1 << 20}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("BatchAdd of an unknown opcode = %v, want ErrUnsupported", err)
	}
	if err := l.QP.BatchAdd(&provider.SendWR{RemoteAddr: r.Mem.Addr, RKey: r.Mem.RKey}); !errors.Is(err, provider.ErrNoOpcode) {
		t.Errorf("BatchAdd of a zero Opcode = %v, want %v", err, provider.ErrNoOpcode)
	}
	if err := l.QP.BatchAdd(write(3, 3)); err != nil {
		t.Errorf("QP.BatchAdd: %v", err)
	}
	if err := l.QP.BatchPost(); err != nil {
		t.Fatalf("QP.BatchPost: %v", err)
	}
	if got := s.ok(t, l, 2); got[0].ID != 2 || got[1].ID != 3 || !s.eventually(func() bool { return r.Mem.Bytes[0] == 3 }) {
		t.Errorf("completions = %+v, byte = %d, want IDs 2 and 3, byte 3", got, r.Mem.Bytes[0])
	}
	// As many requests as the queue has slots, and one more.
	l.QP.BatchBegin()
	n := 0
	for ; n < l.QP.Cap().SendWR+1; n++ {
		if err := l.QP.BatchAdd(write(uint64(n), 4)); errors.Is(err, provider.ErrFull) {
			break
		} else if err != nil {
			t.Errorf("QP.BatchAdd: %v", err)
		}
	}
	l.QP.BatchDiscard()
	if n == 0 || n > l.QP.Cap().SendWR {
		t.Errorf("BatchAdd accepted %d requests, want 1 to %d", n, l.QP.Cap().SendWR)
	}
	l.QP.BatchBegin()
	if err := l.QP.BatchPost(); err != nil {
		t.Errorf("BatchPost of an empty batch: %v", err)
	}
	s.works(t, l, r)
	if r.Mem.Bytes[0] == 4 {
		t.Error("a request of a discarded batch was executed")
	}
}

// testFlush moves a QP to the error state. Requests posted before and after the move must be
// flushed once each.
func (s *Suite) testFlush(t *testing.T) {
	_, r := s.Pair(t, provider.QPCap{SendWR: 8, RecvWR: 8, SendSGE: 1, RecvSGE: 1})
	recv(t, r, provider.RecvWR{ID: 1}, provider.RecvWR{ID: 2})
	if err := r.QP.Modify(&provider.QPAttr{State: provider.QPErr}, provider.QPAttrState); err != nil {
		t.Fatalf("QP.Modify: %v", err)
	}
	if r.QP.State() != provider.QPErr {
		t.Errorf("State() = %v, want ERR", r.QP.State())
	}
	recv(t, r, provider.RecvWR{ID: 3})
	send(t, r, provider.SendWR{ID: 4, Opcode: provider.OpSend})
	seen := map[uint64]bool{}
	for _, wc := range s.collect(t, r, 4) {
		if wc.Status != provider.WCWRFlushErr || seen[wc.ID] {
			t.Errorf("completion = %+v, want WCWRFlushErr once for each ID", wc)
		}
		seen[wc.ID] = true
	}
	if n, err := r.CQ.Poll(make([]provider.WC, 1)); n != 0 || err != nil {
		t.Errorf("Poll after the last completion = %d, %v, want 0, nil", n, err)
	}
}

// testRemoteError uses an unknown key. The request must fail, and later requests must be
// flushed.
func (s *Suite) testRemoteError(t *testing.T) {
	l, r := s.Pair(t, provider.QPCap{SendWR: 8, RecvWR: 8, SendSGE: 1, RecvSGE: 1})
	op := provider.SendWR{ID: 1, Opcode: provider.OpRead, RemoteAddr: r.Mem.Addr, RKey: r.Mem.RKey ^ 0x5500, Flags: provider.SendSignaled,
		SGList: []provider.SGE{l.Mem.sge(0, 8)}}
	after := op
	after.ID = 2
	if n, err := l.QP.PostSend([]provider.SendWR{op, after}); n != 2 || err != nil {
		t.Fatalf("QP.PostSend = %d, %v, want 2, nil", n, err)
	}
	got := s.collect(t, l, 2)
	if got[0].ID != 1 || got[0].Err() == nil || got[1].ID != 2 || got[1].Err() == nil {
		t.Errorf("completions = %+v, want errors for IDs 1 and 2", got)
	}
}

// testClosed uses closed objects.
func (s *Suite) testClosed(t *testing.T) {
	l, _ := s.Pair(t, provider.QPCap{})
	if err := l.CQ.Close(); err == nil {
		t.Fatal("Close of a CQ with a QP succeeded")
	}
	for range 2 {
		if err := l.QP.Close(); err != nil {
			t.Fatalf("QP.Close: %v", err)
		}
	}
	closed := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s after Close = %v, want net.ErrClosed", what, err)
		}
	}
	_, err := l.QP.PostSend(make([]provider.SendWR, 1))
	closed("PostSend", err)
	_, err = l.QP.PostRecv(make([]provider.RecvWR, 1))
	closed("PostRecv", err)
	_, err = l.QP.Query()
	closed("Query", err)
	closed("Modify", l.QP.Modify(&provider.QPAttr{State: provider.QPErr}, provider.QPAttrState))
	l.QP.BatchBegin()
	closed("BatchAdd", l.QP.BatchAdd(&provider.SendWR{Opcode: provider.OpSend}))
	closed("BatchPost", l.QP.BatchPost())
	for range 2 {
		if err := l.CQ.Close(); err != nil {
			t.Fatalf("CQ.Close: %v", err)
		}
	}
	_, err = l.CQ.Poll(make([]provider.WC, 1))
	closed("Poll", err)
}

// testNoAllocs counts the allocations of posting and polling.
func (s *Suite) testNoAllocs(t *testing.T) {
	l, r := s.Pair(t, provider.QPCap{SendWR: 8, RecvWR: 8, SendSGE: 1, RecvSGE: 1, Inline: 16})
	recvs := []provider.RecvWR{{SGList: []provider.SGE{r.Mem.sge(0, 64)}}, {SGList: []provider.SGE{r.Mem.sge(0, 64)}}}
	sends := []provider.SendWR{
		{Opcode: provider.OpSend, Flags: provider.SendSignaled, SGList: []provider.SGE{l.Mem.sge(0, 64)}},
		{Opcode: provider.OpSend, Flags: provider.SendSignaled, InlineData: make([]byte, 16)},
	}
	wcs := make([]provider.WC, 2)
	take := func(e *End) {
		for n := 0; n < 2; {
			k, err := e.CQ.Poll(wcs[n:])
			if err != nil {
				t.Fatalf("CQ.Poll: %v", err)
			}
			n += k
			runtime.Gosched() // lets a fake device in a goroutine run
		}
	}
	if n := testing.AllocsPerRun(200, func() {
		r.QP.PostRecv(recvs)
		l.QP.PostSend(sends)
		take(r)
		take(l)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
