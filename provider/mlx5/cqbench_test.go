// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"purerdma/provider"
)

// BenchmarkPoll polls completions of WRITEs, of receives, and of receives with 16 bytes of data
// in the CQE. Each call polls batch completions. While the clock is stopped, the ring is filled
// with 512 completions.
func BenchmarkPoll(b *testing.B) {
	for _, unlocked := range []bool{false, true} {
		for _, kind := range []string{"send", "recv", "data"} {
			for _, batch := range []int{1, 16, 32} {
				name := fmt.Sprintf("%s/batch=%d", kind, batch)
				if unlocked {
					name = "unlocked/" + name
				}
				b.Run(name, func(b *testing.B) { benchPoll(b, unlocked, kind, batch, 1) })
			}
		}
	}
}

// BenchmarkPollers polls receives with one goroutine and with two. Each goroutine polls its own
// QP and CQ. All data go into one memory region.
func BenchmarkPollers(b *testing.B) {
	for _, kind := range []string{"recv", "data"} {
		for _, pollers := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/pollers=%d", kind, pollers), func(b *testing.B) { benchPoll(b, false, kind, 16, pollers) })
		}
	}
}

func benchPoll(b *testing.B, unlocked bool, kind string, batch, pollers int) {
	const round = 512
	r := newCQRig(b, provider.CQConfig{})
	lkey, _ := r.region(4096, 0x1000)
	lanes := make([]*pollLane, pollers)
	for i := range lanes {
		r.cq, _ = r.newCQ(provider.CQConfig{Entries: 1023, Unlocked: unlocked})
		lanes[i] = r.pollLane(kind, provider.SGE{Addr: 0x1000 + uint64(i)*64, Length: 64, LKey: lkey})
	}
	var wg sync.WaitGroup
	for _, l := range lanes {
		wg.Go(func() {
			wcs := make([]provider.WC, batch)
			for left := b.N / pollers; left > 0; left -= round {
				l.fill(round)
				start := time.Now()
				for n := 0; n < round; {
					k, err := l.cq.Poll(wcs)
					if k == 0 || wcs[0].Status != provider.WCSuccess {
						b.Errorf("Poll = %d, %v, with %+v", k, err, wcs[0])
						return
					}
					n += k
				}
				l.rounds = append(l.rounds, time.Since(start))
			}
		})
	}
	wg.Wait()
	var rounds []time.Duration
	for _, l := range lanes {
		rounds = append(rounds, l.rounds...)
	}
	if len(rounds) == 0 {
		return
	}
	// The median, and the value for an idle machine.
	slices.Sort(rounds)
	b.ReportMetric(float64(rounds[len(rounds)/2].Nanoseconds())/round, "ns/CQE")
	b.ReportMetric(float64(rounds[len(rounds)/50].Nanoseconds())/round, "quiet-ns/CQE")
	b.ReportMetric(0, "ns/op")
}

// pollLane is a CQ with one QP, whose completions are all of one kind.
type pollLane struct {
	cq     *CQ
	q      *QP
	recv   bool
	cqe    []byte
	rounds []time.Duration
}

// pollLane creates a QP on the CQ of the rig. All of its receives have the element sge.
func (r *cqRig) pollLane(kind string, sge provider.SGE) *pollLane {
	l := &pollLane{cq: r.cq, q: r.qpOf(provider.RC, nil, 1024), recv: kind != "send"}
	if !l.recv {
		l.cqe = l.q.sendCQE(0, opcodeWrite).Bytes(cqeSize)
		return l
	}
	for range 1024 {
		l.q.recvPosted(r.t, 0, sge)
	}
	l.q.rq.head = 0 // fill posts them
	e := l.q.recvCQE(0)
	if e.ByteCount = 16; kind == "data" {
		e.Format, e.Data = formatScatter32, pattern(16)
	}
	l.cqe = e.Bytes(cqeSize)
	return l
}

// fill posts n requests and completes them.
func (l *pollLane) fill(n int) {
	for i := range uint32(n) {
		var index uint16
		if l.recv {
			index = uint16(l.q.rq.head)
			l.q.rq.head++
		} else {
			index = l.q.sendPosted(1, 0)
		}
		setCounter(l.cqe, index)
		e := l.cq.entry(l.cq.ci + i)
		copy(unsafe.Slice((*byte)(e), cqeSize), l.cqe)
		*(*uint8)(unsafe.Add(e, cqeOpOwn)) |= uint8((l.cq.ci + i) >> l.cq.log & 1)
	}
}
