// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inprocess_test

import (
	"bytes"
	"encoding/binary"
	"sync"
	"testing"

	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/test/connectx"
	"purerdma/test/connectx/inprocess"
	"purerdma/verbs"
)

// raw creates a QP of raw packets that is ready to send. frames returns the frames that its device has sent.
func raw(t *testing.T, violation func(connectx.Violation)) (e *end, frames func() [][]byte) {
	var mu sync.Mutex
	var sent [][]byte
	k := inprocess.New(inprocess.Config{Violation: violation, Trace: func(r connectx.Record) {
		if f, ok := r.(*connectx.FrameRecord); ok && f.Sent {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, bytes.Clone(f.Frame))
		}
	}}, "mlx5_0", "mlx5_1")
	n := &net{t: t, k: k, host: &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k}}
	n.end("mlx5_0", verbs.QPConfig{}) // uses the first index
	e = n.end("mlx5_0", verbs.QPConfig{Type: verbs.RawPacket, MaxLSOHeader: 64, Cap: verbs.QPCap{Inline: 128, RecvWR: 4}})
	for _, s := range []verbs.QPState{verbs.QPInit, verbs.QPRTR, verbs.QPRTS} {
		attr, mask := &verbs.QPAttr{State: s, Port: 1}, verbs.QPAttrState
		if s == verbs.QPInit {
			mask |= verbs.QPAttrPort
		}
		if err := e.qp.Modify(attr, mask); err != nil {
			t.Fatalf("e.qp.Modify to %v: %v", s, err)
		}
	}
	return e, func() [][]byte {
		mu.Lock()
		defer mu.Unlock()
		return sent
	}
}

// frame returns a frame of n bytes with the EtherType for local experiments.
func frame(n int) []byte {
	f := make([]byte, n)
	for i := range f {
		f[i] = byte(i)
	}
	copy(f, "\x02\x00\x0a\x00\x00\x02\x02\x00\x0a\x00\x00\x01\x88\xb5")
	return f
}

// TestRawPackets sends unchanged frames from memory and inline, more than the queue can hold.
func TestRawPackets(t *testing.T) {
	e, sent := raw(t, inprocess.Fail(t))
	var want [][]byte
	for i := range 300 {
		f := frame(60 + i)
		wr := verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled}
		switch {
		case len(f) < 128 && i%2 == 0:
			wr.InlineData = f
		case i%3 == 2 && i%16 <= 4:
			copy(e.mr.Bytes(), f)
			wr.Header, wr.SGList = f[:14+i%16], []verbs.SGE{e.mr.Slice(14+i%16, len(f)-14-i%16)}
		default:
			copy(e.mr.Bytes(), f)
			wr.SGList = []verbs.SGE{e.mr.Slice(0, 50), e.mr.Slice(50, len(f)-50)}
		}
		e.send(wr)
		if wc := e.wait(1)[0]; wc.Err() != nil || wc.ID != uint64(i) {
			t.Fatalf("completion of frame %d = %+v, want success", i, wc)
		}
		want = append(want, f)
	}
	got := sent()
	if len(got) != len(want) {
		t.Fatalf("frames on the wire = %d, want %d", len(got), len(want))
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("frame %d = %x, want %x", i, got[i], want[i])
		}
	}
	if attr, err := e.qp.Query(); err != nil || attr.State != verbs.QPRTS {
		t.Errorf("state = %v, %v, want %v", attr.State, err, verbs.QPRTS)
	}
}

// TestRawLSO checks that the device cuts a TCP stream into segments.
func TestRawLSO(t *testing.T) {
	e, sent := raw(t, inprocess.Fail(t))
	const headers, mss, data = 54, 1000, 2500
	h := frame(headers)
	copy(h[12:], "\x08\x00\x45")
	clear(h[15:])
	binary.BigEndian.PutUint16(h[16:], headers-14+data)
	h[22], h[23] = 64, 6 // TTL, TCP
	copy(h[26:], "\x0a\x00\x00\x01\x0a\x00\x00\x02\x10\x00\x20\x00\x00\x00\x00\x07")
	h[46] = 0x50 // 5 words of TCP header
	copy(e.mr.Bytes(), frame(data))
	e.send(verbs.SendWR{ID: 1, Opcode: verbs.OpLSO, Flags: verbs.SendSignaled, Header: h, MSS: mss, SGList: []verbs.SGE{e.mr.Slice(0, data)}})
	if wc := e.wait(1)[0]; wc.Err() != nil {
		t.Fatalf("completion of the LSO request: %v", wc.Err())
	}
	got := sent()
	if len(got) != 3 {
		t.Fatalf("segments = %d, want 3", len(got))
	}
	var stream []byte
	for i, f := range got {
		if seq := binary.BigEndian.Uint32(f[38:]); seq != 7+uint32(i)*mss {
			t.Errorf("sequence number of segment %d = %d, want %d", i, seq, 7+uint32(i)*mss)
		}
		stream = append(stream, f[headers:]...)
	}
	if !bytes.Equal(stream, e.mr.Bytes()[:data]) {
		t.Error("the bytes of the segments differ from the sent stream")
	}
}

// TestRawErrors sends a frame from memory that the QP may not use. The send queue fails. When the QP moves to the
// error state, all posted requests are flushed.
func TestRawErrors(t *testing.T) {
	var mu sync.Mutex
	var violations int
	e, sent := raw(t, func(connectx.Violation) {
		mu.Lock()
		defer mu.Unlock()
		violations++
	})
	e.recv(verbs.RecvWR{ID: 5, SGList: []verbs.SGE{e.mr.Slice(0, 2048)}})
	bad := e.mr.Slice(0, 64)
	bad.LKey ^= 0xff
	e.send(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Header: nil, SGList: []verbs.SGE{e.mr.Slice(0, 18), bad}},
		verbs.SendWR{ID: 2, Opcode: verbs.OpSend, InlineData: frame(60)})
	wcs := e.wait(2)
	if wcs[0].ID != 1 || wcs[0].Status != verbs.WCLocProtErr || wcs[1].ID != 2 || wcs[1].Status != verbs.WCWRFlushErr {
		t.Errorf("completions = %+v, want %v and %v", wcs, verbs.WCLocProtErr, verbs.WCWRFlushErr)
	}
	if attr, err := e.qp.Query(); err != nil || attr.State != verbs.QPSQE {
		t.Errorf("state = %v, %v, want %v", attr.State, err, verbs.QPSQE)
	}
	if err := e.qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState); err != nil {
		t.Fatalf("e.qp.Modify: %v", err)
	}
	if wc := e.wait(1)[0]; wc.ID != 5 || wc.Status != verbs.WCWRFlushErr {
		t.Errorf("completion of the receive = %+v, want %v", wc, verbs.WCWRFlushErr)
	}
	if attr, err := e.qp.Query(); err != nil || attr.State != verbs.QPErr {
		t.Errorf("state = %v, %v, want %v", attr.State, err, verbs.QPErr)
	}
	mu.Lock()
	defer mu.Unlock()
	if violations != 1 || len(sent()) != 0 {
		t.Errorf("violations = %d, frames = %d, want 1 and 0", violations, len(sent()))
	}
}
