// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inprocess_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"purerdma/test/connectx"
	"purerdma/verbs"
)

// In these tests the device differs from the card that provider/mlx5 and the model assume. The provider must
// continue without a loss.

// quirky returns a net with quirks of its devices.
func quirky(t *testing.T, q connectx.Quirks) *net {
	n := newNet(t, nil)
	for _, name := range []string{"mlx5_0", "mlx5_1"} {
		n.k.Device(name).SetQuirks(q)
	}
	return n
}

// slot returns the 128 bytes with a number in an end's region.
func (e *end) slot(i int) (verbs.SGE, []byte) {
	off := i % 256 * 128
	return e.mr.Slice(off, 128), e.mr.Bytes()[off : off+128]
}

// stream sends messages from a to b, a few at a time, and checks each. Most messages are short, so that their
// data is in the completion.
func stream(t *testing.T, a, b *end, from, messages int) {
	t.Helper()
	const window = 8
	payload := func(i int) []byte {
		p := bytes.Repeat([]byte{byte(i)}, 8+i%60)
		binary.LittleEndian.PutUint64(p, uint64(i))
		return p
	}
	for first := from; first < from+messages; first += window {
		last := min(first+window, from+messages)
		for i := first; i < last; i++ {
			to, mem := b.slot(i)
			clear(mem)
			b.recv(verbs.RecvWR{ID: uint64(i), SGList: []verbs.SGE{to}})
		}
		for i := first; i < last; i++ {
			sge, mem := a.slot(i)
			sge.Length = uint32(copy(mem, payload(i)))
			a.send(verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{sge}})
		}
		for _, e := range []*end{a, b} {
			for k, wc := range e.wait(last - first) {
				if wc.ID != uint64(first+k) || wc.Err() != nil {
					t.Fatalf("completion %d of %v = %+v, %v, want success", first+k, e.dev, wc, wc.Err())
				}
			}
		}
		for i := first; i < last; i++ {
			_, mem := b.slot(i)
			if want := payload(i); !bytes.Equal(mem[:len(want)], want) {
				t.Fatalf("message %d = % x, want % x", i, mem[:len(want)], want)
			}
		}
	}
}

// TestExactDoorbells uses a device on which each doorbell affects only the request and the QP, or the CQ, in its
// value. If a post does not write the register, or writes a wrong request, the post is lost permanently.
func TestExactDoorbells(t *testing.T) {
	n := quirky(t, connectx.Quirks{ExactDoorbells: true})
	a, b := n.pair(verbs.QPCap{SendWR: 32, RecvWR: 32, SendSGE: 4, Inline: 200}, patient)
	stream(t, a, b, 0, 2000)
	stream(t, b, a, 0, 200)
	// Post lists, inline data, and requests of several WQEBBs, past the end of the ring and of the
	// 16 bits of the counters.
	for i := range 10_000 {
		wrs := make([]verbs.SendWR, 1+i%8)
		for k := range wrs {
			wrs[k] = verbs.SendWR{ID: uint64(k), Opcode: verbs.OpWrite, RemoteAddr: b.mr.Addr() + uint64(k)*256, RKey: b.mr.RKey()}
			switch (i + k) % 3 {
			case 0:
				wrs[k].InlineData = []byte(fmt.Sprintf("%08d %08d %0*d", i, k, i%170, 0))
			case 1:
				wrs[k].SGList = []verbs.SGE{a.mr.Slice(0, 10), a.mr.Slice(20, 10), a.mr.Slice(40, 10), a.mr.Slice(60, 10)}
			default:
				wrs[k].SGList = []verbs.SGE{a.mr.Slice(0, 16)}
			}
		}
		wrs[len(wrs)-1].Flags = verbs.SendSignaled
		a.send(wrs...)
		if wc := a.wait(1)[0]; wc.Err() != nil || wc.ID != uint64(len(wrs)-1) {
			t.Fatalf("completion of list %d = %+v, %v, want success of its last request", i, wc, wc.Err())
		}
	}
}

// TestLateResize resizes a CQ that contains completions. The entry that ends the old ring comes late, or never.
func TestLateResize(t *testing.T) {
	for _, late := range []bool{true, false} {
		t.Run(fmt.Sprintf("late %v", late), func(t *testing.T) {
			n := quirky(t, connectx.Quirks{HoldResize: true})
			a, b := n.pair(verbs.QPCap{SendWR: 64, RecvWR: 64}, patient)
			at := 0
			for _, size := range []int{1000, 100, 5000} {
				stream(t, a, b, at, 20)
				at += 20
				// These completions are in the old ring at the time of the resize.
				for i := range 5 {
					b.recv(verbs.RecvWR{ID: uint64(i), SGList: []verbs.SGE{b.mr.Slice(0, 64)}})
				}
				for i := range 5 {
					a.send(verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, InlineData: []byte("before the resize")})
				}
				b.wait(5)
				if late {
					time.AfterFunc(20*time.Millisecond, func() { n.k.Device("mlx5_0").ReleaseResize() })
				}
				if err := a.cq.Resize(size); err != nil {
					t.Fatalf("Resize(%d): %v", size, err)
				}
				for i, wc := range a.wait(5) {
					if wc.ID != uint64(i) || wc.Err() != nil {
						t.Fatalf("completion %d from before the resize = %+v, %v, want success", i, wc, wc.Err())
					}
				}
			}
			stream(t, a, b, at, 200)
			if late {
				return
			}
			// The late entries must not overwrite memory with a new use.
			n.k.Device("mlx5_0").ReleaseResize()
			stream(t, a, b, at+200, 200)
		})
	}
}
