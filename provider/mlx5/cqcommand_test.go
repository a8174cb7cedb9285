// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"purerdma/provider"
	"purerdma/provider/internal/endian"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/uverbs"
)

func TestArm(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	q := r.qp(provider.RC, nil)
	r.cq.ci = 0x8ffffff // only the low 24 bits count
	r.cq.publish()
	r.dev.SetProduced(0x8ffffff)
	check := func(what string, seq, cmd, ci uint32) {
		t.Helper()
		want := seq<<28 | cmd<<24 | ci
		if got := r.dev.ArmWord(); got != want {
			t.Errorf("%s: record %#x, want %#x", what, got, want)
		}
		reg := r.dev.UAR.Mem[mlx5test.CQDoorbell:][:8]
		if a, b := binary.BigEndian.Uint32(reg), binary.BigEndian.Uint32(reg[4:]); a != want || b != r.cq.num {
			t.Errorf("%s: register %#x %#x, want %#x %#x", what, a, b, want, r.cq.num)
		}
	}
	arm := func(solicited bool) {
		t.Helper()
		if err := r.cq.Arm(solicited); err != nil {
			t.Fatalf("CQ.Arm: %v", err)
		}
	}
	arm(false)
	check("at first", 0, 0, 0xffffff)
	arm(true)
	check("solicited", 0, 1, 0xffffff)
	r.put(q.sendCQE(q.sendPosted(1, 0), opcodeSend))
	r.one()
	arm(false)
	check("after a completion", 0, 0, 0)
	for n := range uint32(10) {
		r.cq.Event()
		arm(n%2 == 0)
		check(fmt.Sprint(n+1, " events"), (n+1)&3, (n+1)%2, 0)
	}
}

func TestPollExtended(t *testing.T) {
	sizes(t, func(t *testing.T, size int) {
		r := newCQRig(t, ofSize(size))
		q := r.qp(provider.RC, nil)
		var cqes []*mlx5test.CQE
		for i := range uint64(6) {
			e := q.sendCQE(q.sendPosted(i, 0), opcodeSend)
			if i%2 == 1 {
				e = q.recvCQE(q.recvPosted(t, i))
			}
			e.Timestamp = 0x1122334455667700 + i
			cqes = append(cqes, e)
		}
		r.put(cqes...)
		cs := make([]Completion, 4)
		for _, want := range []int{4, 2, 0} {
			n, err := r.cq.PollExtended(cs)
			if n != want || err != nil {
				t.Fatalf("PollExtended = %d, %v, want %d, nil", n, err, want)
			}
			for i, c := range cs[:n] {
				id := uint64(i + 4 - n/4*4)
				if c.ID != id || c.Timestamp != 0x1122334455667700+id || c.FlowTag != q.num {
					t.Errorf("completion %d = %+v, want its ID, timestamp and flow tag", id, c)
				}
			}
		}
		if got := r.dev.ConsumerIndex(); got != 6 {
			t.Errorf("consumer index %d, want 6", got)
		}
		b := q.recvCQE(q.recvPosted(t, 1)).Bytes(size)
		f := b[size-64:]
		binary.BigEndian.PutUint32(f[12:], 0x55667788)
		binary.BigEndian.PutUint16(f[20:], 0x99aa)
		binary.BigEndian.PutUint16(f[30:], 0x1234)
		r.dev.Complete(b)
		if n, _ := r.cq.PollExtended(cs); n != 1 || cs[0].VLAN != 0x1234 || cs[0].Hash != 0x55667788 || cs[0].Checksum != 0x99aa {
			t.Errorf("PollExtended = %d, %+v, want VLAN 0x1234, hash 0x55667788 and checksum 0x99aa", n, cs[0])
		}
		r.put(&mlx5test.CQE{UserIndex: 0x777})
		if n, err := r.cq.PollExtended(cs); n != 0 || err != nil || r.cq.Skipped() != 1 {
			t.Errorf("PollExtended of an impossible completion = %d, %v, and Skipped() = %d, want 0, nil and 1", n, err, r.cq.Skipped())
		}
	})
}

// TestResize resizes with a varying number of unpolled completions, at positions around the
// wrap of both rings. Afterwards the device continues.
func TestResize(t *testing.T) {
	sizes(t, func(t *testing.T, size int) {
		for _, to := range []int{7, 15, 31, 100} {
			for unpolled := range 8 {
				for polled := uint64(9); polled < 36; polled += uint64(shorter(3, 9)) {
					r := newCQRig(t, ofSize(size))
					q := r.qp(provider.RC, nil)
					id := uint64(0)
					put := func(n int) {
						for range n {
							r.put(q.sendCQE(q.sendPosted(id, 0), opcodeSend))
							id++
						}
					}
					for range polled {
						put(1)
						r.one()
					}
					put(unpolled)
					if err := r.cq.Resize(to); err != nil {
						t.Fatalf("to %d with %d: CQ.Resize: %v", to, unpolled, err)
					}
					if want := 1<<log2ceil(to+1) - 1; r.cq.Entries() != want || r.dev.Entries() != want+1 {
						t.Fatalf("Entries() = %d, of the device %d, want %d and %d", r.cq.Entries(), r.dev.Entries(), want, want+1)
					}
					put(3 - 3*(unpolled/6)) // none if they would not fit
					next := polled
					for range 3 {
						for _, wc := range r.poll() {
							if wc.ID != next {
								t.Fatalf("to %d with %d of %d: completion %d, want %d", to, unpolled, polled, wc.ID, next)
							}
							next++
						}
						if next != id {
							t.Fatalf("to %d with %d of %d: polled up to %d, want %d", to, unpolled, polled, next, id)
						}
						put(7)
					}
				}
			}
		}
	})
}

func TestResizeCompressed(t *testing.T) {
	sizes(t, func(t *testing.T, size int) {
		for n := 2; n < 20; n++ {
			r := newCQRig(t, ofCompression(size, CompressHash))
			q := r.qp(provider.RC, nil)
			for i := range uint64(11) {
				r.put(q.sendCQE(q.sendPosted(i, 0), opcodeSend))
				r.one()
			}
			title := q.recvCQE(uint16(q.rq.head))
			minis := make([]mini, n)
			for i := range minis {
				minis[i].byteCount = uint32(100 + i)
				q.recvPosted(t, uint64(i))
			}
			r.putCompressed(title, minis)
			r.put(q.sendCQE(q.sendPosted(99, 0), opcodeSend))
			if err := r.cq.Resize(60); err != nil {
				t.Fatalf("CQ.Resize(60): %v", err)
			}
			wcs := r.poll()
			if len(wcs) != n+1 || wcs[n].ID != 99 {
				t.Fatalf("%d completions, want %d: %+v", len(wcs), n+1, wcs)
			}
			for i, wc := range wcs[:n] {
				if wc.ID != uint64(i) || wc.ByteLen != uint32(100+i) {
					t.Errorf("completion %d of %d = %+v, want its ID and %d bytes", i, n, wc, 100+i)
				}
			}
		}
	})
}

func TestResizeRefused(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	q := r.qp(provider.RC, nil)
	for i := range uint64(8) {
		r.put(q.sendCQE(q.sendPosted(i, 0), opcodeSend))
	}
	for _, n := range []int{-1, 0, 1 << 24} {
		if err := r.cq.Resize(n); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%d entries: CQ.Resize = %v, want EINVAL", n, err)
		}
	}
	// If the kernel refuses the command, the CQ is unchanged.
	if err := r.cq.Resize(3); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Resize(3) with 8 completions = %v, want EINVAL", err)
	}
	// A resize to the current size runs no command.
	before := r.dev.Produced()
	if err := r.cq.Resize(15); err != nil || r.dev.Produced() != before {
		t.Errorf("Resize(15) = %v with %d completions of the device, want nil and %d", err, r.dev.Produced(), before)
	}
	if n := len(r.poll()); n != 8 {
		t.Errorf("%d completions, want 8", n)
	}
}

// TestResizeWithoutEnd has a device that writes the last entry of the old ring late, or never.
// No completion may be lost, and the old ring must stay mapped until the CQ is closed.
func TestResizeWithoutEnd(t *testing.T) {
	for _, late := range []bool{false, true} {
		r := newCQRig(t, provider.CQConfig{})
		q := r.qp(provider.RC, nil)
		r.put(q.sendCQE(q.sendPosted(1, 0), opcodeSend), q.sendCQE(q.sendPosted(2, 0), opcodeSend))
		old := r.dev.Buf
		word := (*uint32)(unsafe.Pointer(&old[2*64+60])) // the last word of the entry
		var end uint32
		written := make(chan struct{})
		r.after = func(*uverbs.Request) {
			r.after = nil
			end = *word
			*word = endian.Big32(cqeInvalid << 4)
			if !late {
				close(written)
				return
			}
			time.AfterFunc(5*time.Millisecond, func() {
				atomic.StoreUint32(word, end)
				close(written)
			})
		}
		if err := r.cq.Resize(30); err != nil {
			t.Fatalf("late %v: CQ.Resize(30): %v", late, err)
		}
		<-written
		r.put(q.sendCQE(q.sendPosted(3, 0), opcodeSend))
		wcs := r.poll()
		if len(wcs) != 3 {
			t.Fatalf("late %v: %d completions, want 3", late, len(wcs))
		}
		for i, wc := range wcs {
			if wc.ID != uint64(i+1) || wc.Status != provider.WCSuccess {
				t.Errorf("late %v: completion = %+v, want success of ID %d", late, wc, i+1)
			}
		}
		if kept := len(r.cq.left); kept == 0 != late {
			t.Errorf("late %v: %d old rings are kept, want 0 only if the entry was late", late, kept)
		}
		if !late {
			*word = end // would fault if the ring were unmapped
		}
		if err := r.cq.Close(); err != nil {
			t.Errorf("CQ.Close: %v", err)
		}
	}
}

// TestResizeHostile has a device that does not mark the end of the old ring.
func TestResizeHostile(t *testing.T) {
	for name, spoil := range map[string]func(r *cqRig, old []byte){
		"more than fit": func(r *cqRig, old []byte) {
			end := bytes.Clone(old[2*64 : 3*64])
			copy(old[2*64:], old[64:2*64])
			copy(old[3*64:], old[64:2*64])
			copy(old[4*64:], end)
		},
		"no end, all ours": func(r *cqRig, old []byte) {
			for i := 63; i < len(old); i += 64 {
				old[i] = 0
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newCQRig(t, provider.CQConfig{})
			q := r.qp(provider.RC, nil)
			r.put(q.sendCQE(q.sendPosted(1, 0), opcodeSend), q.sendCQE(q.sendPosted(2, 0), opcodeSend))
			old := r.dev.Buf
			r.after = func(*uverbs.Request) {
				r.after = nil
				spoil(r, old)
			}
			err := r.cq.Resize(3)
			if bad := new(CQEError); !errors.As(err, &bad) {
				t.Fatalf("Resize(3) = %v, want a CQEError", err)
			}
			if _, err := r.cq.Poll(make([]provider.WC, 4)); err == nil {
				t.Error("Poll of a CQ without a ring succeeded")
			}
			if err := r.cq.Close(); err != nil {
				t.Errorf("CQ.Close: %v", err)
			}
		})
	}
}

// TestPurgeQP removes the completions of one QP from between completions of other QPs.
func TestPurgeQP(t *testing.T) {
	sizes(t, func(t *testing.T, size int) {
		for mask := 0; mask < 1<<8; mask += shorter(3, 17) {
			for _, polled := range []int{12, 27} {
				r := newCQRig(t, ofSize(size))
				srq := r.srq(provider.SRQConfig{MaxWR: 30, MaxSGE: 1})
				gone, stays := r.qp(provider.RC, srq), r.qp(provider.RC, srq)
				for range polled {
					r.put(gone.sendCQE(gone.sendPosted(0, 0), opcodeSend))
					r.one()
				}
				var want []uint64
				free := 0
				for i := range uint64(8) {
					q := stays
					if mask>>i&1 != 0 {
						q = gone
					}
					switch {
					case i%3 == 0:
						r.put(q.sendCQE(q.sendPosted(i, 0), opcodeSend))
					case i%3 == 1:
						r.put(q.recvCQE(r.postSRQ(srq, 1000+i)))
						if q == gone {
							free++
						}
					default:
						e := q.recvCQE(r.postSRQ(srq, 1000+i))
						e.Opcode, e.Syndrome = mlx5test.CQERespErr, 5
						r.put(e)
						if q == gone {
							free++
						}
					}
					if q == stays {
						id := i
						if i%3 != 0 {
							id += 1000
						}
						want = append(want, id)
					}
				}
				r.cq.purgeQP(gone)
				if r.cq.qp == gone {
					t.Fatal("the CQ still caches the removed QP")
				}
				if srq.list.nfree != free {
					t.Fatalf("%d receives of the SRQ are free, want %d", srq.list.nfree, free)
				}
				wcs := r.poll()
				if len(wcs) != len(want) {
					t.Fatalf("%08b: %d completions, want %d", mask, len(wcs), len(want))
				}
				for i, wc := range wcs {
					if wc.ID != want[i] || wc.QPNum != stays.num {
						t.Fatalf("%08b: completion %d = %+v, want ID %d", mask, i, wc, want[i])
					}
				}
				// The ring continues as before.
				for i := range uint64(40) {
					r.put(stays.sendCQE(stays.sendPosted(i, 0), opcodeSend))
					if wc := r.one(); wc.ID != i {
						t.Fatalf("%08b: later completion = %+v, want ID %d", mask, wc, i)
					}
				}
			}
		}
	})
}

func TestPurgeQPCompressed(t *testing.T) {
	r := newCQRig(t, ofCompression(64, CompressHash))
	gone, stays := r.qp(provider.RC, nil), r.qp(provider.RC, nil)
	for round := range 10 {
		var minis [2][]mini
		for i := range uint64(9) {
			stays.recvPosted(t, i)
			gone.recvPosted(t, i)
			minis[0] = append(minis[0], mini{byteCount: uint32(i)})
			minis[1] = append(minis[1], mini{byteCount: uint32(i)})
		}
		r.putCompressed(gone.recvCQE(uint16(gone.rq.head-9)), minis[0])
		r.putCompressed(stays.recvCQE(uint16(stays.rq.head-9)), minis[1])
		r.put(gone.sendCQE(gone.sendPosted(1, 0), opcodeSend))
		r.cq.purgeQP(gone)
		gone.rq.tail = gone.rq.head
		wcs := r.poll()
		if len(wcs) != 9 {
			t.Fatalf("round %d: %d completions, want 9", round, len(wcs))
		}
		for i, wc := range wcs {
			if wc.ID != uint64(i) || wc.ByteLen != uint32(i) || wc.QPNum != stays.num {
				t.Errorf("round %d, completion %d = %+v, want the index as ID and length", round, i, wc)
			}
		}
	}
}
