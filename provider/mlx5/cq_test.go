// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"purerdma/internal/longtest"
	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
)

// sizes runs a test with CQEs of both sizes.
func sizes(t *testing.T, f func(t *testing.T, size int)) {
	for _, size := range []int{64, 128} {
		t.Run(fmt.Sprint(size), func(t *testing.T) { f(t, size) })
	}
}

// shorter returns short, or n if the long tests are enabled.
func shorter(n, short int) int {
	if longtest.Enabled() {
		return n
	}
	return short
}

func ofSize(size int) provider.CQConfig {
	return provider.CQConfig{Vendor: &CQOptions{EntrySize: size}}
}

func TestRequests(t *testing.T) {
	for _, tc := range []struct {
		opcode uint8
		want   provider.WC
	}{
		{0x0a, provider.WC{Opcode: provider.WCSend}},
		{0x0b, provider.WC{Opcode: provider.WCSend, Flags: provider.WCWithImm}},
		{0x01, provider.WC{Opcode: provider.WCSend}},
		{0x08, provider.WC{Opcode: provider.WCWrite}},
		{0x09, provider.WC{Opcode: provider.WCWrite, Flags: provider.WCWithImm}},
		{0x0e, provider.WC{Opcode: provider.WCLSO}},
		{0x10, provider.WC{Opcode: provider.WCRead, ByteLen: 0x12345}},
		{0x11, provider.WC{Opcode: provider.WCCompareSwap, ByteLen: 8}},
		{0x12, provider.WC{Opcode: provider.WCFetchAdd, ByteLen: 8}},
		{0x25, provider.WC{Opcode: provider.WCBindMW}},
		{0x00, provider.WC{Opcode: provider.WCBindMW}},
		{0x77, provider.WC{Status: provider.WCGeneralErr}},
	} {
		sizes(t, func(t *testing.T, size int) {
			r := newCQRig(t, ofSize(size))
			q := r.qp(provider.RC, nil)
			for i := range uint64(3) { // another QP's completion, then its own, then one of the cached QP
				e := q.sendCQE(q.sendPosted(0x1122334455660000+i, provider.WCBindMW), tc.opcode)
				e.ByteCount = 0x12345
				r.put(e)
				want := tc.want
				want.ID, want.QPNum = 0x1122334455660000+i, q.num
				if got := r.one(); got != want {
					t.Errorf("completion of opcode %#x = %+v, want %+v", tc.opcode, got, want)
				}
			}
		})
	}
}

// TestRequestsFree checks that the completion of a later request frees unsignaled requests.
func TestRequestsFree(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	q := r.qp(provider.RC, nil)
	for i := range uint64(200) {
		q.sendPosted(3*i, 0)
		q.sendPosted(3*i+1, 0)
		r.put(q.sendCQE(q.sendPosted(3*i+2, 0), opcodeSend))
		if got := r.one(); got.ID != 3*i+2 || q.sq.tail != uint32(3*i+3) {
			t.Fatalf("completion of request %d = %+v with tail %d, want tail %d", 3*i+2, got, q.sq.tail, 3*i+3)
		}
	}
}

// TestReceives polls receives of an InfiniBand device.
func TestReceives(t *testing.T) {
	for _, tc := range []struct {
		cqe  mlx5test.CQE
		want provider.WC
	}{
		{mlx5test.CQE{Opcode: mlx5test.CQERespSend}, provider.WC{Opcode: provider.WCRecv}},
		{mlx5test.CQE{Opcode: mlx5test.CQERespImm, Imm: 0xa1b2c3d4}, provider.WC{Opcode: provider.WCRecv, Flags: provider.WCWithImm, ImmData: 0xa1b2c3d4, PKeyIndex: 0xc3d4}},
		{mlx5test.CQE{Opcode: mlx5test.CQERespInv, Imm: 0xa1b2c3d4}, provider.WC{Opcode: provider.WCRecv, Flags: provider.WCWithInv, InvalidatedRKey: 0xa1b2c3d4, PKeyIndex: 0xc3d4}},
		{mlx5test.CQE{Opcode: mlx5test.CQERespWrite, Imm: 0x01020304}, provider.WC{Opcode: provider.WCRecvWriteImm, Flags: provider.WCWithImm, ImmData: 0x01020304, PKeyIndex: 0x0304}},
		{mlx5test.CQE{Opcode: mlx5test.CQERespSend, Solicited: true, PKeyIndex: 7}, provider.WC{Opcode: provider.WCRecv, PKeyIndex: 7}},
		{mlx5test.CQE{Opcode: mlx5test.CQERespSend, GRH: 1, SrcQPN: 0xfedcba, SLID: 0xbeef, SL: 11, PathBits: 0x55},
			provider.WC{Opcode: provider.WCRecv, Flags: provider.WCGRH, SrcQP: 0xfedcba, SLID: 0xbeef, SL: 11, DLIDPathBits: 0x55}},
		{mlx5test.CQE{Opcode: mlx5test.CQERespSend, GRH: 2, PathBits: 0xff}, provider.WC{Opcode: provider.WCRecv, Flags: provider.WCGRH, DLIDPathBits: 0x7f}},
	} {
		sizes(t, func(t *testing.T, size int) {
			r := newCQRig(t, ofSize(size))
			r.cq.ethernet = false
			q := r.qp(provider.UD, nil)
			srq := r.srq(provider.SRQConfig{MaxWR: 10, MaxSGE: 1})
			onSRQ := r.qp(provider.UD, srq)
			for i := range uint64(200) {
				e := tc.cqe
				e.UserIndex, e.QPN, e.ByteCount = q.index, q.num, 0xabcdef
				e.WQECounter = q.recvPosted(t, i)
				want := tc.want
				want.ID, want.QPNum, want.ByteLen = i, q.num, 0xabcdef
				r.put(&e)
				if got := r.one(); got != want {
					t.Fatalf("completion = %+v, want %+v", got, want)
				}
				e.UserIndex, e.QPN = onSRQ.index, onSRQ.num
				e.WQECounter = r.postSRQ(srq, i)
				want.QPNum = onSRQ.num
				r.put(&e)
				if got := r.one(); got != want {
					t.Fatalf("completion of an SRQ's receive = %+v, want %+v", got, want)
				}
			}
		})
	}
}

func TestChecksumsRight(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	q := r.qp(provider.RawPacket, nil)
	for csum := range 8 {
		for l3 := range 4 {
			for _, valid := range []bool{false, true} {
				q.rq.checksums = valid
				b := q.recvCQE(q.recvPosted(t, 1)).Bytes(64)
				b[28], b[29] = byte(csum), byte(l3<<2)|0xc3
				r.dev.Complete(b)
				want := valid && csum&6 == 6 && l3 == 2
				if got := r.one().Flags&provider.WCIPCsumOK != 0; got != want {
					t.Errorf("checksums %d, protocol %d, valid %v: WCIPCsumOK = %v, want %v", csum, l3, valid, got, want)
				}
			}
		}
	}
}

func TestSyndromes(t *testing.T) {
	want := map[uint8]provider.WCStatus{
		0x01: provider.WCLocLenErr, 0x02: provider.WCLocQPOpErr, 0x04: provider.WCLocProtErr, 0x05: provider.WCWRFlushErr,
		0x06: provider.WCMWBindErr, 0x10: provider.WCBadRespErr, 0x11: provider.WCLocAccessErr, 0x12: provider.WCRemInvReqErr,
		0x13: provider.WCRemAccessErr, 0x14: provider.WCRemOpErr, 0x15: provider.WCRetryExcErr, 0x16: provider.WCRNRRetryExcErr,
		0x22: provider.WCRemAbortErr,
	}
	sizes(t, func(t *testing.T, size int) {
		r := newCQRig(t, ofSize(size))
		q := r.qp(provider.RC, nil)
		srq := r.srq(provider.SRQConfig{MaxWR: 10, MaxSGE: 1})
		onSRQ := r.qp(provider.RC, srq)
		for s := range 256 {
			st, ok := want[uint8(s)]
			if !ok {
				st = provider.WCGeneralErr
			}
			e := mlx5test.CQE{UserIndex: q.index, QPN: q.num, Syndrome: uint8(s), VendorSyndrome: 0x81}
			wc := provider.WC{ID: uint64(s), Status: st, VendorErr: 0x81, QPNum: q.num}
			e.Opcode, e.WQECounter = mlx5test.CQEReqErr, q.sendPosted(uint64(s), 0)
			r.put(&e)
			if got := r.one(); got != wc {
				t.Errorf("completion of syndrome %#x of a request = %+v, want %+v", s, got, wc)
			}
			e.Opcode, e.WQECounter = mlx5test.CQERespErr, q.recvPosted(t, uint64(s))
			r.put(&e)
			if got := r.one(); got != wc {
				t.Errorf("completion of syndrome %#x of a receive = %+v, want %+v", s, got, wc)
			}
			e.UserIndex, e.WQECounter = onSRQ.index, r.postSRQ(srq, uint64(s))
			wc.QPNum = onSRQ.num
			r.put(&e)
			if got := r.one(); got != wc {
				t.Errorf("completion of syndrome %#x of an SRQ's receive = %+v, want %+v", s, got, wc)
			}
		}
	})
}

// TestIndexWraps polls at the positions where the consumer index overflows the bits of the
// ring, of the record and of a register.
func TestIndexWraps(t *testing.T) {
	sizes(t, func(t *testing.T, size int) {
		for _, start := range []uint32{0, 1<<16 - 20, 1<<24 - 20, 1<<31 - 20, ^uint32(20)} {
			r := newCQRig(t, ofSize(size))
			q := r.qp(provider.RC, nil)
			r.cq.ci = start
			r.cq.publish()
			// Entries of the previous round.
			for i := range r.cq.mask + 1 {
				*(*uint8)(unsafe.Add(r.cq.entry(start+i), cqeOpOwn)) = cqeReq<<4 | uint8((start+i)>>r.cq.log&1^1)
			}
			r.dev.SetProduced(start)
			id := uint64(0)
			for batch := range uint64(20) {
				for i := range batch % 16 {
					r.put(q.sendCQE(q.sendPosted(id+i, 0), opcodeSend))
				}
				wcs := r.poll()
				if len(wcs) != int(batch%16) {
					t.Fatalf("from %#x: %d completions, want %d", start, len(wcs), batch%16)
				}
				for i := range wcs {
					if wcs[i].ID != id {
						t.Fatalf("from %#x: completion %d, want %d", start, wcs[i].ID, id)
					}
					id++
				}
			}
		}
	})
}

// TestStaleEntries lets the entries of the previous round name the requests that are posted
// now.
func TestStaleEntries(t *testing.T) {
	sizes(t, func(t *testing.T, size int) {
		r := newCQRig(t, ofSize(size))
		q := r.qp(provider.RC, nil)
		for i := range uint64(400) {
			// Polls expect a completion like the last one.
			var e *mlx5test.CQE
			if i < 200 {
				e = q.sendCQE(q.sendPosted(i, 0), opcodeSend)
			} else {
				e = q.recvCQE(q.recvPosted(t, i))
			}
			for k := range uint32(3) {
				at := r.cq.ci + k
				b := e.Bytes(size)
				b[size-1] |= uint8(at>>r.cq.log&1 ^ 1)
				copy(r.dev.Buf[int(at&r.cq.mask)*size:], b)
			}
			if wcs := r.poll(); len(wcs) != 0 {
				t.Fatalf("poll of the stale entry %d = %+v, want none", r.cq.ci, wcs)
			}
			r.put(e)
			if wc := r.one(); wc.ID != i {
				t.Fatalf("completion = %+v, want ID %d", wc, i)
			}
		}
	})
}

// TestRingFull has the device fill every entry.
func TestRingFull(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	q := r.qp(provider.RC, nil)
	for range 3 {
		for i := range uint64(16) {
			r.put(q.sendCQE(q.sendPosted(i, 0), opcodeSend))
		}
		if n := len(r.poll()); n != 16 {
			t.Fatalf("%d completions, want 16", n)
		}
	}
}

// TestSeveralQueues mixes the completions of several queues.
func TestSeveralQueues(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{Entries: 63})
	qps := []*QP{r.qp(provider.RC, nil), r.qp(provider.RC, nil), r.qp(provider.RC, nil)}
	for i := range uint64(30) {
		q := qps[i*7%3]
		if i%2 == 0 {
			r.put(q.sendCQE(q.sendPosted(i, 0), opcodeWrite))
		} else {
			r.put(q.recvCQE(q.recvPosted(t, i)))
		}
	}
	for i, wc := range r.poll() {
		if wc.ID != uint64(i) || wc.QPNum != qps[i*7%3].num {
			t.Errorf("completion %d = %+v, want the index as ID, of QP %#x", i, wc, qps[i*7%3].num)
		}
	}
}

// TestConcurrentPolls checks that concurrent pollers poll every completion exactly once.
func TestConcurrentPolls(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	q := r.qp(provider.RC, nil)
	const total = 5000
	seen := make([]int, total)
	var mu sync.Mutex
	left := total
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			wcs := make([]provider.WC, 5)
			for {
				n, err := r.cq.Poll(wcs)
				if err != nil {
					t.Errorf("CQ.Poll: %v", err)
					return
				}
				mu.Lock()
				for i := range n {
					seen[wcs[i].ID]++
					left--
				}
				done := left == 0
				mu.Unlock()
				if done {
					return
				}
				runtime.Gosched()
			}
		})
	}
	for i := range uint64(total) {
		for q.sq.head-atomic.LoadUint32(&q.sq.tail) >= 15 || r.dev.Produced()-r.dev.ConsumerIndex() >= 15 {
			runtime.Gosched()
		}
		r.put(q.sendCQE(q.sendPosted(i, 0), opcodeSend))
	}
	wg.Wait()
	for i, n := range seen {
		if n != 1 {
			t.Fatalf("completion %d was polled %d times, want 1", i, n)
		}
	}
}

func TestPollAllocates(t *testing.T) {
	for _, unlocked := range []bool{false, true} {
		r := newCQRig(t, provider.CQConfig{Unlocked: unlocked})
		q := r.qp(provider.RC, nil)
		lkey, _ := r.region(64, 0)
		withData := provider.SGE{LKey: lkey, Length: 16}
		wcs, cs := make([]provider.WC, 8), make([]Completion, 8)
		n := 0.0
		for _, poll := range []func() (int, error){
			func() (int, error) { return r.cq.Poll(wcs) },
			func() (int, error) { return r.cq.PollExtended(cs) },
		} {
			send, recv, short := q.sendCQE(0, opcodeSend).Bytes(64), q.recvCQE(0).Bytes(64), q.recvCQE(0)
			short.Format, short.ByteCount, short.Data = formatScatter32, 16, pattern(16)
			data := short.Bytes(64)
			n += testing.AllocsPerRun(100, func() {
				for range 2 {
					setCounter(send, q.sendPosted(1, 0))
					r.dev.Complete(send)
					setCounter(recv, uint16(q.rq.head))
					q.recvPosted(t, 2)
					r.dev.Complete(recv)
					for range 2 {
						setCounter(data, uint16(q.rq.head))
						q.recvPosted(t, 2, withData)
						r.dev.Complete(data)
					}
				}
				if n, err := poll(); n != 8 || err != nil {
					t.Fatalf("poll() = %d, %v, want 8, nil", n, err)
				}
			})
		}
		if n != 0 {
			t.Errorf("unlocked %v: %v allocations, want 0", unlocked, n)
		}
	}
}
