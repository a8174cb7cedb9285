// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// latePackets closes QPs that receive WRITEs from a QP of the same device. The device hands
// these packets over without the network. rxe_resp_queue_pkt queues such a packet and then
// uses the receiving QP, to which only the packet holds a reference. If the receiver's task
// has freed the packet in between, the kernel may have freed the QP.
func latePackets() error {
	hosts, err := vmtest.Ends()
	if err != nil {
		return err
	}
	sender, err := newEnd(hosts[0])
	if err != nil {
		return err
	}
	receiver := *sender
	wrs := make([]verbs.SendWR, 64)
	for i := range wrs {
		wrs[i] = verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: sender.buf.Addr(), RKey: sender.buf.RKey(), SGList: []verbs.SGE{sender.buf.Slice(0, 64)}}
	}
	rounds := 0
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); rounds++ {
		if err := errors.Join(sender.createQP(), receiver.createQP()); err != nil {
			return err
		}
		if err := errors.Join(receiver.connect(sender, 0x1000), sender.connect(&receiver, 0x1000)); err != nil {
			return err
		}
		if _, err := sender.qp.PostSend(wrs); err != nil {
			return err
		}
		time.Sleep(time.Duration(rand.IntN(2_000_000)))
		if err := errors.Join(receiver.qp.Close(), sender.qp.Close()); err != nil {
			return err
		}
	}
	fmt.Println("QPs closed while they received packets:", rounds)
	return nil
}
