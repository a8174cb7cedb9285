// SPDX-License-Identifier: Apache-2.0

// Ours is the benchmark of posting and polling in provider/mlx5 or provider/erdma, on a device that is memory.
//
//	ours [-driver erdma] post|batch|builder|verbs|verbsbatch|recv locked|unlocked inline|write BATCH ROUNDS REQUESTS
//	ours receive plain|data BATCH ROUNDS POLLERS
//	ours conn start|post NUMBER ROUNDS REQUESTS
//	ours goroutines shared|own|late NUMBER ROUNDS REQUESTS
//
// It prints the medians of ROUNDS rounds of REQUESTS requests, in nanoseconds for each posted request and for each
// polled completion. The last two forms print the nanoseconds and the allocations of an operation. Each measured loop is a function, so that tools can count its instructions.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"purerdma/provider"
)

const (
	maxRound = 512 // maximum of requests in the queues
	maxBatch = 64
	length   = 64 // bytes of a request
	received = 16 // bytes of a received message
)

// remote is the peer's memory that WRITEs name.
var remote = provider.RemoteMemory{Addr: 0x7f1122334455, Length: length, RKey: 0xdeadbe01}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ours:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	driver := "mlx5"
	if len(args) > 2 && args[0] == "-driver" {
		driver, args = args[1], args[2:]
	}
	switch {
	case len(args) == 5 && args[0] == "receive":
		return runReceive(args[1] == "data", args[2:])
	case len(args) == 5 && args[0] == "conn":
		return runConn(args[1], args[2:])
	case len(args) == 5 && args[0] == "goroutines":
		return runGoroutines(args[1], args[2:])
	}
	if len(args) != 6 {
		return errors.New("usage: ours post|batch|builder|verbs|verbsbatch|recv locked|unlocked inline|write BATCH ROUNDS REQUESTS")
	}
	batch, err := strconv.Atoi(args[3])
	if err != nil || batch < 1 || batch > maxBatch {
		return fmt.Errorf("invalid batch %q", args[3])
	}
	rounds, err := strconv.Atoi(args[4])
	if err != nil || rounds < 1 {
		return fmt.Errorf("invalid rounds %q", args[4])
	}
	round, err := strconv.Atoi(args[5])
	if err != nil || round < 1 || round > maxRound || round%batch != 0 {
		return fmt.Errorf("invalid requests %q", args[5])
	}
	runtime.LockOSThread()
	by, inline := args[0], args[2] == "inline"
	devices, err := newDevices(driver, 1, args[1] == "unlocked", by == "recv")
	if err != nil {
		return err
	}
	d := devices[0]
	wrs := slices.Repeat([]provider.SendWR{d.request(inline)}, batch)
	for i := range wrs {
		wrs[i].ID = uint64(i)
	}
	var post func()
	switch by {
	case "recv":
		recvs := slices.Repeat([]provider.RecvWR{{SGList: []provider.SGE{d.mr.Slice(0, length)}}}, batch)
		post = func() { measureRecv(d.qp, recvs, round/batch) }
	case "post":
		post = func() { measurePost(d.qp, wrs, round/batch) }
	case "verbs":
		post = func() { measureVerbs(d.verbs, wrs, round/batch) }
	case "batch", "builder", "verbsbatch":
		post = d.batch(by, inline, batch, round/batch)
	default:
		return fmt.Errorf("unknown interface %q", by)
	}
	poll := func(wcs []provider.WC) { measurePoll(d.cq, wcs, round) }
	if by == "verbs" || by == "verbsbatch" {
		poll = func(wcs []provider.WC) { measureVerbsPoll(d.verbsCQ, wcs, round) }
	}
	wcs := make([]provider.WC, batch)
	posts, polls := make([]float64, rounds), make([]float64, rounds)
	for r := range rounds {
		t0 := time.Now()
		post()
		t1 := time.Now()
		d.card.complete(d, inline, round)
		t2 := time.Now()
		poll(wcs)
		t3 := time.Now()
		posts[r], polls[r] = float64(t1.Sub(t0))/float64(round), float64(t3.Sub(t2))/float64(round)
	}
	fmt.Printf("%.2f %.2f\n", median(posts), median(polls))
	return nil
}
