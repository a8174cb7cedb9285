// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"purerdma/cm"
	"purerdma/cmd/internal/tool"
	"purerdma/verbs"
)

// node is one connection with its objects.
type node struct {
	test      *test
	id        *cm.ID
	connected atomic.Bool

	pd   *verbs.PD
	send *verbs.CQ
	recv *verbs.CQ
	qp   *verbs.QP
	mr   *verbs.MR // one buffer for sent and received messages, as in C
}

// init creates the objects of a connection whose device is known.
func (n *node) init() error {
	u, opt := n.test.u, n.test.opt
	dev := n.id.Device()
	var err error
	if n.pd, err = dev.AllocPD(); err != nil {
		u.Printf("cmatose: unable to allocate PD\n")
		u.Fail(err)
		return &tool.StatusError{Status: tool.StatusNoMem, Err: err}
	}
	depth := max(opt.count, 1)
	if err = n.createCQs(dev, depth); err != nil {
		u.Printf("cmatose: unable to create CQ\n")
		u.Fail(err)
		return &tool.StatusError{Status: tool.StatusNoMem, Err: err}
	}
	n.qp, err = n.pd.CreateQP(verbs.QPConfig{
		Type: verbs.RC, SendCQ: n.send, RecvCQ: n.recv, SignalAll: true,
		Cap: verbs.QPCap{SendWR: depth, RecvWR: depth, SendSGE: 1, RecvSGE: 1},
	})
	if err == nil {
		err = n.id.UseQP(n.qp)
	}
	if err != nil {
		u.Perror("cmatose: unable to create QP", err)
		return err
	}
	if opt.count == 0 {
		return nil
	}
	if n.mr, err = n.pd.RegMR(make([]byte, opt.size), verbs.LocalWrite); err != nil {
		u.Printf("failed to reg MR\ncmatose: failed to create messages: -1\n")
		u.Fail(err)
	}
	return err
}

// createCQs creates the two queues on the completion channel that all connections of a device
// share.
func (n *node) createCQs(dev *verbs.Device, entries int) error {
	ch, err := n.test.comp.On(dev)
	if err != nil {
		return err
	}
	if n.send, err = dev.CreateCQ(verbs.CQConfig{Entries: entries, Channel: ch}); err != nil {
		return err
	}
	n.recv, err = dev.CreateCQ(verbs.CQConfig{Entries: entries, Channel: ch})
	return err
}

// postRecvs posts a receive for every message before the connection is established.
func (n *node) postRecvs() error {
	if n.mr == nil {
		return nil
	}
	wr := []verbs.RecvWR{{SGList: []verbs.SGE{n.mr.SGE()}}}
	for range n.test.opt.count {
		if _, err := n.qp.PostRecv(wr); err != nil {
			n.test.u.Printf("failed to post receives: -1\n")
			n.test.u.Fail(err)
			return err
		}
	}
	return nil
}

// postSends posts every message.
func (n *node) postSends() error {
	if n.mr == nil {
		return nil
	}
	wr := []verbs.SendWR{{Opcode: verbs.OpSend, SGList: []verbs.SGE{n.mr.SGE()}}}
	for range n.test.opt.count {
		if _, err := n.qp.PostSend(wr); err != nil {
			n.test.u.Printf("failed to post sends: -1\n")
			n.test.u.Fail(err)
			return err
		}
	}
	return nil
}

func (n *node) awaitSends(ctx context.Context) error { return n.await(ctx, n.send, "send") }
func (n *node) awaitRecvs(ctx context.Context) error { return n.await(ctx, n.recv, "receive") }

// await waits until every message has completed on a queue. The C program also counts failed
// messages, and reports success.
func (n *node) await(ctx context.Context, cq *verbs.CQ, what string) error {
	var wcs [8]verbs.WC
	for done := 0; done < n.test.opt.count; {
		got, err := cq.Wait(ctx, wcs[:])
		if err != nil {
			n.test.u.Printf("cmatose: failed polling CQ: -1\n")
			n.test.u.Fail(err)
			return err
		}
		for _, wc := range wcs[:got] {
			if err := wc.Err(); err != nil {
				err = fmt.Errorf("%v->%v: %s %d of %d: %w", n.id.LocalAddr(), n.id.RemoteAddr(), what, done+1, n.test.opt.count, err)
				n.test.u.Fail(err)
				return err
			}
			done++
		}
	}
	return nil
}

// close releases the connection.
func (n *node) close() error {
	// Close the ID first. After that no operation of the connection is in progress.
	errs := []error{n.id.Close()}
	if n.qp != nil {
		errs = append(errs, n.qp.Close())
	}
	if n.send != nil {
		errs = append(errs, n.send.Close())
	}
	if n.recv != nil {
		errs = append(errs, n.recv.Close())
	}
	if n.mr != nil {
		errs = append(errs, n.mr.Close())
	}
	if n.pd != nil {
		errs = append(errs, n.pd.Close())
	}
	return errors.Join(errs...)
}
