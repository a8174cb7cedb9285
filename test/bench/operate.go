// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// operator is one of the two ends that operations measures. Each goroutine has its own part of the memory of both
// ends.
type operator struct {
	host       *verbs.Host // nil means verbs.DefaultHost
	kind       string      // "read", "write" or "send"
	size       int         // bytes of a message
	goroutines int
}

// operateReceives is the number of posted receives. perftest has as many.
const operateReceives = 512

// operateWarmUp bounds the operations before the measured ones. rdmaperf has as many.
const operateWarmUp = 100

var errOperateUsage = errors.New("usage: -operate server ADDRESS KIND SIZE GOROUTINES, -operate client ADDRESS KIND SIZE GOROUTINES COUNT SERVER")

// operateHere is one of the two processes.
func operateHere(ctx context.Context, role string, args []string, w io.Writer) error {
	if role == "server" && len(args) != 4 || role == "client" && len(args) != 6 || role != "server" && role != "client" {
		return errOperateUsage
	}
	var numbers []int
	for i, arg := range args {
		if i != 2 && i != 3 && i != 4 {
			continue
		}
		n, err := strconv.Atoi(arg)
		if err != nil || n < 1 {
			return errOperateUsage
		}
		numbers = append(numbers, n)
	}
	o := &operator{kind: args[1], size: numbers[0], goroutines: numbers[1]}
	if role == "server" {
		return o.serve(ctx, net.JoinHostPort(args[0], "0"), w)
	}
	each, err := o.measure(ctx, net.JoinHostPort(args[0], "0"), args[5], numbers[2])
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%g\n", float64(each.Nanoseconds())/1e3/float64(numbers[2]))
	return err
}

// spin returns how long a wait of the client or of the server polls. As in rdmaperf, a single goroutine polls, and
// the server polls if it receives. With many goroutines one waits for all, and its polling would delay the others on
// two processors.
func (o *operator) spin(server bool) time.Duration {
	if o.goroutines > 1 || server && o.kind != "send" {
		return 0 // the default
	}
	return busyWait
}

// serve prints its address, and serves one client.
func (o *operator) serve(ctx context.Context, addr string, w io.Writer) error {
	cfg := cm.ListenConfig{Host: o.host, QP: verbs.QPConfig{Cap: verbs.QPCap{RecvWR: operateReceives}, Spin: o.spin(true)}}
	ln, err := cfg.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	if _, err := fmt.Fprintln(w, ln.Addr()); err != nil {
		return err
	}
	req, err := ln.Accept(ctx)
	if err != nil {
		return err
	}
	defer req.Close()
	mr, err := req.Alloc(o.goroutines*o.size, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	if err != nil {
		return err
	}
	part := func(i uint64) verbs.SGE { return mr.Slice(int(i)%o.goroutines*o.size, o.size) }
	if o.kind == "send" {
		for i := range uint64(operateReceives) {
			if err := req.PostRecv(i, part(i)); err != nil {
				return err
			}
		}
	}
	offer, err := mr.Remote().MarshalBinary()
	if err != nil {
		return err
	}
	conn, err := req.Accept(ctx, nil, &cm.ConnParam{PrivateData: offer})
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		wc, err := conn.WaitRecv(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := conn.PostRecv(wc.ID, part(wc.ID)); err != nil {
			return err
		}
	}
}

// measure connects and returns the time of count operations.
func (o *operator) measure(ctx context.Context, from, server string, count int) (time.Duration, error) {
	src, err := cm.ParseAddr(from)
	if err != nil {
		return 0, err
	}
	d := cm.Dialer{Host: o.host, LocalAddr: src, QP: verbs.QPConfig{Spin: o.spin(false)}}
	conn, err := d.Dial(ctx, "tcp", server)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if depth := conn.QP().Cap().SendWR; depth < o.goroutines {
		return 0, fmt.Errorf("the send queue has %d requests, for %d goroutines", depth, o.goroutines)
	}
	var theirs verbs.RemoteMemory
	if offer := conn.PrivateData(); len(offer) < verbs.RemoteMemoryLen {
		return 0, fmt.Errorf("the server sent %d bytes of private data, want %d", len(offer), verbs.RemoteMemoryLen)
	} else if err := theirs.UnmarshalBinary(offer[:verbs.RemoteMemoryLen]); err != nil {
		return 0, err
	}
	access := verbs.LocalWrite
	if o.kind == "read" {
		access |= verbs.RemoteWrite // iWARP needs this right for the memory that a READ writes
	}
	mine, err := conn.Alloc(o.goroutines*o.size, access)
	if err != nil {
		return 0, err
	}
	if err := o.run(ctx, conn, mine, theirs, min(operateWarmUp, count)); err != nil {
		return 0, err
	}
	start := time.Now()
	err = o.run(ctx, conn, mine, theirs, count)
	return time.Since(start), err
}

// run does count operations.
func (o *operator) run(ctx context.Context, conn *cm.Conn, mine *verbs.MR, theirs verbs.RemoteMemory, count int) error {
	var left atomic.Int64
	left.Store(int64(count))
	errs := make([]error, o.goroutines)
	var all sync.WaitGroup
	for g := range o.goroutines {
		local, remote := mine.Slice(g*o.size, o.size), theirs.Slice(g*o.size, o.size)
		all.Go(func() {
			for errs[g] == nil && left.Add(-1) >= 0 {
				switch o.kind {
				case "read":
					errs[g] = conn.Read(ctx, local, remote)
				case "write":
					errs[g] = conn.Write(ctx, local, remote)
				default:
					errs[g] = conn.Send(ctx, local)
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
