// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/verbs"
)

// connection is a Conn on a device that is memory.
type connection struct {
	*cm.Conn
	local verbs.SGE
	fake  *fakeDevice
}

// connect makes a connection between two devices, with the driver of the dialing side.
func connect(ctx context.Context, driver provider.Driver) (*connection, error) {
	k := mlx5test.New("mlx5_0", "mlx5_1")
	net := cmtest.New(k)
	client := &verbs.Host{Drivers: []provider.Driver{driver}, Kernel: net}
	ln, err := (&cm.ListenConfig{Host: net.Host(), KeepAlive: -1}).Listen(ctx, "tcp", "10.0.0.1:7")
	if err != nil {
		return nil, err
	}
	accepted := make(chan error, 1)
	go func() {
		req, err := ln.Accept(ctx)
		if err == nil {
			_, err = req.Accept(ctx, nil, nil)
		}
		accepted <- err
	}()
	d := cm.Dialer{Host: client, LocalAddr: cm.AddrFrom(netip.MustParseAddrPort("10.0.0.2:0")), KeepAlive: -1}
	c := new(connection)
	if c.Conn, err = d.Dial(ctx, "tcp", ln.Addr().String()); err != nil {
		return nil, err
	}
	if err := <-accepted; err != nil {
		return nil, err
	}
	mr, err := c.Alloc(length, verbs.LocalWrite)
	if err != nil {
		return nil, err
	}
	c.local, c.fake = mr.Slice(0, length), new(fakeDevice)
	if qp, ok := c.QP().Provider().(*fakeQP); ok {
		c.fake = &qp.cq.fake
	}
	for _, qp := range k.QPs() {
		if qp.Num == c.QP().Num() {
			c.fake.serve(qp)
			return c, nil
		}
	}
	return nil, errors.New("the device does not have the QP of the connection")
}

// runConn measures operations of one goroutine. by is "start" for operations of a Conn, or "post" for PostSend and Poll
// on its QP. args are the operations that are in flight together, the rounds, and the operations of a round. It prints
// the nanoseconds and the allocations of an operation.
func runConn(by string, args []string) error {
	n, rounds, round, err := threeNumbers(args)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	ctx := context.Background()
	c, err := connect(ctx, mlx5.Driver{})
	if err != nil {
		return err
	}
	if depth := c.QP().Cap().SendWR; n > depth || round%n != 0 {
		return fmt.Errorf("%d operations do not fit a queue of %d or a round of %d", n, depth, round)
	}
	ops, wcs := make([]cm.Op, n), make([]verbs.WC, n)
	wrs := []verbs.SendWR{{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{c.local}, RemoteAddr: remote.Addr, RKey: remote.RKey}}
	begin, end := func() { measureStart(ctx, c.Conn, ops, c.local) }, func() { measureWait(ctx, ops) }
	switch by {
	case "start":
	case "post":
		begin, end = func() { measureVerbs(c.QP(), wrs, n) }, func() { measureVerbsPoll(c.QP().SendCQ(), wcs, n) }
	default:
		return fmt.Errorf("unknown interface %q", by)
	}
	return printRounds(rounds, round, func() (took time.Duration) {
		for range round / n {
			t0 := time.Now()
			begin()
			t1 := time.Now()
			for range n {
				c.fake.complete(true)
			}
			t2 := time.Now()
			end()
			took += t1.Sub(t0) + time.Since(t2)
		}
		return took
	})
}

//go:noinline
func measureStart(ctx context.Context, c *cm.Conn, ops []cm.Op, local verbs.SGE) {
	for i := range ops {
		var err error
		if ops[i], err = c.StartWrite(ctx, local, remote, nil); err != nil {
			panic(err)
		}
	}
}

//go:noinline
func measureWait(ctx context.Context, ops []cm.Op) {
	for _, op := range ops {
		if err := op.Wait(ctx); err != nil {
			panic(err)
		}
	}
}

// lateBy is about the time from the post of a WRITE to its completion on a real network.
const lateBy = 2 * time.Microsecond

// longRound is the number of rounds that runGoroutines takes together, so that the start of the goroutines does not
// count.
const longRound = 40

// runGoroutines measures WRITEs of goroutines. by is "shared" for one connection, or "own" for a connection of each
// goroutine, whose requests complete when they are posted. With "late" the connection is shared, and its requests
// complete later. args are the goroutines, the rounds, and the WRITEs of a round. It prints the nanoseconds from one
// WRITE to the next, and the allocations of a WRITE.
func runGoroutines(by string, args []string) error {
	n, rounds, round, err := threeNumbers(args)
	if err != nil {
		return err
	}
	var latency time.Duration
	switch by {
	case "shared", "own":
	case "late":
		latency = lateBy
	default:
		return fmt.Errorf("unknown connections %q", by)
	}
	ctx := context.Background()
	conns := make([]*connection, n)
	for i := range conns {
		if i > 0 && by != "own" {
			conns[i] = conns[0]
		} else if conns[i], err = connect(ctx, fakeDriver{latency: latency}); err != nil {
			return err
		}
	}
	round *= longRound
	return printRounds(rounds, round, func() time.Duration {
		var left atomic.Int64
		left.Store(int64(round))
		var all sync.WaitGroup
		start := time.Now()
		for _, c := range conns {
			all.Go(func() {
				for left.Add(-1) >= 0 {
					if err := c.Write(ctx, c.local, remote); err != nil {
						panic(err)
					}
				}
			})
		}
		all.Wait()
		return time.Since(start)
	})
}

// printRounds prints the median of the nanoseconds of an operation, and the allocations of an operation. run runs a round
// of operations.
func printRounds(rounds, operations int, run func() time.Duration) error {
	run() // the first round allocates
	times := make([]float64, rounds)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range times {
		times[i] = float64(run()) / float64(operations)
	}
	runtime.ReadMemStats(&after)
	_, err := fmt.Printf("%.2f %.6f\n", median(times), float64(after.Mallocs-before.Mallocs)/float64(rounds*operations))
	return err
}

// threeNumbers parses three positive numbers.
func threeNumbers(args []string) (a, b, c int, err error) {
	for i, n := range []*int{&a, &b, &c} {
		if *n, err = strconv.Atoi(args[i]); err != nil || *n < 1 {
			return 0, 0, 0, fmt.Errorf("invalid argument %q", args[i])
		}
	}
	return a, b, c, nil
}
