// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"purerdma/provider"
)

// yieldAfter is the number of checks for the other pollers before a poller yields. It corresponds to about
// 100 microseconds, so that pollers with their own processors start a round together.
const yieldAfter = 1 << 17

// runReceive measures receives, with or without data in the completions. Each poller has its own processor, CQ
// and QP. args are the batch, the rounds and the pollers.
func runReceive(inCQE bool, args []string) error {
	var n [3]int
	for i, arg := range args {
		var err error
		if n[i], err = strconv.Atoi(arg); err != nil || n[i] < 1 {
			return fmt.Errorf("invalid argument %q", arg)
		}
	}
	batch, rounds, pollers := n[0], n[1], n[2]
	if maxRound%batch != 0 || pollers > runtime.NumCPU() {
		return fmt.Errorf("invalid batch %d, or %d pollers on %d processors", batch, pollers, runtime.NumCPU())
	}
	devices, err := newDevices("mlx5", pollers, false, true)
	if err != nil {
		return err
	}
	// Otherwise the runtime would count the processors of the pinned thread, and stop the pollers to
	// reduce GOMAXPROCS.
	runtime.GOMAXPROCS(runtime.NumCPU())
	var arrived atomic.Int64 // pollers at the start of a round
	var wg sync.WaitGroup
	posts, polls, errs := make([][]float64, pollers), make([][]float64, pollers), make([]error, pollers)
	for i, d := range devices {
		d.inCQE = inCQE
		wg.Go(func() {
			errs[i] = pin(runtime.NumCPU() - 1 - i)
			recvs := slices.Repeat([]provider.RecvWR{{SGList: []provider.SGE{d.mr.Slice(i*length, length)}}}, batch)
			wcs := make([]provider.WC, batch)
			for r := range int64(rounds) {
				t0 := time.Now()
				measureRecv(d.qp, recvs, maxRound/batch)
				t1 := time.Now()
				d.card.complete(d, false, maxRound)
				arrived.Add(1)
				for i := 1; arrived.Load() < int64(pollers)*(r+1); i++ {
					if i%yieldAfter == 0 {
						runtime.Gosched() // the other poller may wait for this P
					}
				}
				t2 := time.Now()
				measurePoll(d.cq, wcs, maxRound)
				t3 := time.Now()
				posts[i] = append(posts[i], float64(t1.Sub(t0))/maxRound)
				polls[i] = append(polls[i], float64(t3.Sub(t2))/maxRound)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Printf("%.2f %.2f\n", median(slices.Concat(posts...)), median(slices.Concat(polls...)))
	return nil
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
