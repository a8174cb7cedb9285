// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// waiter is the Go side of wake, with the steps of testdata/wake.c.
type waiter struct {
	qp   *verbs.QP
	recv *verbs.CQ
	mem  *verbs.MR // a word for each receive
	how  string
	wcs  [1]verbs.WC
	sg   [1]verbs.SGE
	rwrs [1]verbs.RecvWR
	swrs [1]verbs.SendWR
}

const (
	wakeReceives = 64
	wakeWord     = 8
)

// waitHere requests messages, and prints the nanoseconds of each.
func waitHere(ctx context.Context, args []string) error {
	if len(args) != 6 {
		return fmt.Errorf("usage: -wake OWN PEER PORT REQUESTS ANSWERS HOW")
	}
	asks, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	answers, err := strconv.Atoi(args[4])
	if err != nil {
		return err
	}
	src, err := cm.ParseAddr(net.JoinHostPort(args[0], "0"))
	if err != nil {
		return err
	}
	d := cm.Dialer{LocalAddr: src}
	resolved, err := d.Resolve(ctx, "tcp", net.JoinHostPort(args[1], args[2]))
	if err != nil {
		return err
	}
	defer resolved.Close()
	send, err := resolved.Device().CreateCQ(verbs.CQConfig{NoEvents: true})
	if err != nil {
		return err
	}
	defer send.Close()
	recv, err := resolved.Device().CreateCQ(verbs.CQConfig{})
	if err != nil {
		return err
	}
	defer recv.Close()
	pd, err := resolved.PD()
	if err != nil {
		return err
	}
	mem, err := pd.Alloc(wakeReceives*wakeWord, verbs.LocalWrite)
	if err != nil {
		return err
	}
	defer mem.Close()
	qp, err := pd.CreateQP(verbs.QPConfig{SendCQ: send, RecvCQ: recv, Cap: verbs.QPCap{SendWR: 8, RecvWR: wakeReceives, SendSGE: 1, RecvSGE: 1, Inline: wakeWord}})
	if err != nil {
		return err
	}
	defer qp.Close()
	if err := resolved.Init(qp); err != nil {
		return err
	}
	w := &waiter{qp: qp, recv: recv, mem: mem, how: args[5]}
	if w.how == "wait" {
		recv.SetSpin(0)
	}
	for i := range uint64(wakeReceives) {
		if err := w.receive(i); err != nil {
			return err
		}
	}
	conn, err := resolved.Connect(ctx, nil, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	took, err := w.run(ctx, asks, answers)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	for _, ns := range took {
		fmt.Fprintln(out, ns)
	}
	return out.Flush()
}

// run returns the nanoseconds from the post of each message until the waiter has its completion.
func (w *waiter) run(ctx context.Context, asks, answers int) ([]int64, error) {
	took := make([]int64, asks*answers)
	question := binary.NativeEndian.AppendUint64(nil, uint64(answers))
	base, offset := monotonic()
	for k := range took {
		if k%answers == 0 {
			w.swrs[0] = verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, InlineData: question}
			if _, err := w.qp.PostSend(w.swrs[:]); err != nil {
				return nil, err
			}
		}
		i, err := w.take(ctx, w.recv, w.how != "poll")
		if err != nil {
			return nil, err
		}
		now := offset + int64(time.Since(base))
		took[k] = now - int64(binary.NativeEndian.Uint64(w.mem.Bytes()[i*wakeWord:]))
		if err := w.receive(i); err != nil {
			return nil, err
		}
		if k%answers == 0 {
			if _, err := w.take(ctx, w.qp.SendCQ(), false); err != nil {
				return nil, err
			}
		}
	}
	return took, nil
}

// take returns the number of the next completed request.
func (w *waiter) take(ctx context.Context, cq *verbs.CQ, waits bool) (id uint64, err error) {
	n := 0
	for n == 0 && err == nil {
		if waits {
			n, err = cq.Wait(ctx, w.wcs[:])
		} else {
			n, err = cq.Poll(w.wcs[:])
		}
	}
	if err != nil {
		return 0, err
	}
	return w.wcs[0].ID, w.wcs[0].Err()
}

// receive posts a receive into a word.
func (w *waiter) receive(i uint64) error {
	w.sg[0] = w.mem.Slice(int(i)*wakeWord, wakeWord)
	w.rwrs[0] = verbs.RecvWR{ID: i, SGList: w.sg[:]}
	_, err := w.qp.PostRecv(w.rwrs[:])
	return err
}
