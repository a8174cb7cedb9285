// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// tornRead posts a WRITE and a READ of three packets. It answers like a responder whose
// requester has repeated both, while the network lost the second packet of the first answer.
// The acknowledgment of the repeated WRITE arrives between two packets of the READ's answer.
// rxe_completer then loses its state within the answer, handles the next packet as an error,
// and completes the READ with its current status, which is success.
func tornRead() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	hosts, err := vmtest.Ends()
	if err != nil {
		return err
	}
	requester, responder := hosts[0], hosts[1]
	l, err := newEnd(requester)
	if err != nil {
		return err
	}
	r, err := newEnd(responder) // its QP stays in INIT and does not receive packets
	if err != nil {
		return err
	}
	const psn, mtu, length = 0x1000, 1024, 3 * 1024
	if err := l.connect(r, psn); err != nil {
		return err
	}
	wire, err := openWire(responder, requester, l.qp.Num())
	if err != nil {
		return err
	}
	const old = 0xee
	copy(l.buf.Bytes(), bytes.Repeat([]byte{old}, length))
	if _, err := l.qp.PostSend([]verbs.SendWR{
		{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey()},
		{ID: 2, Opcode: verbs.OpRead, Flags: verbs.SendSignaled, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, length)}},
	}); err != nil {
		return err
	}
	data := bytes.Repeat([]byte{0x11}, mtu)
	for _, answer := range []packet{
		{opcode: acknowledge, psn: psn, aeth: true},
		{opcode: readFirst, psn: psn + 1, aeth: true, data: data},
		{opcode: acknowledge, psn: psn, aeth: true}, // for the repeated WRITE
		{opcode: readMiddle, psn: psn + 2, data: data},
		{opcode: readLast, psn: psn + 3, aeth: true, data: data},
	} {
		if err := wire.send(answer); err != nil {
			return err
		}
	}
	var wcs [4]verbs.WC
	for read := false; !read; {
		n, err := l.cq.Wait(ctx, wcs[:])
		if err != nil {
			return err
		}
		for _, wc := range wcs[:n] {
			if err := wc.Err(); err != nil {
				return err
			}
			read = read || wc.ID == 2
		}
	}
	stored := length - bytes.Count(l.buf.Bytes()[:length], []byte{old})
	fmt.Printf("the READ completed with success, and %d of its %d bytes were stored\n", stored, length)
	return nil
}

// end is a device with a QP that the connection manager does not manage.
type end struct {
	pd  *verbs.PD
	cq  *verbs.CQ
	qp  *verbs.QP
	buf *verbs.MR
	gid verbs.GIDEntry
}

func newEnd(h vmtest.Host) (*end, error) {
	dev, err := verbs.DefaultHost().Open(h.Device)
	if err != nil {
		return nil, err
	}
	e := &end{}
	if e.pd, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	if e.cq, err = dev.CreateCQ(verbs.CQConfig{}); err != nil {
		return nil, err
	}
	if e.buf, err = e.pd.Alloc(1<<16, verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite); err != nil {
		return nil, err
	}
	gids, err := dev.GIDs()
	if err != nil {
		return nil, err
	}
	for _, g := range gids {
		if g.GID == verbs.GID(h.IPv4.As16()) && g.Type == verbs.GIDTypeRoCEv2 {
			e.gid = g
		}
	}
	return e, e.createQP()
}

// createQP creates the end's QP and moves it to INIT.
func (e *end) createQP() (err error) {
	if e.qp, err = e.pd.CreateQP(verbs.QPConfig{SendCQ: e.cq, RecvCQ: e.cq}); err != nil {
		return err
	}
	init := verbs.QPAttr{State: verbs.QPInit, Port: 1, Access: verbs.RemoteRead | verbs.RemoteWrite}
	return e.qp.Modify(&init, verbs.QPAttrState|verbs.QPAttrPort|verbs.QPAttrPKeyIndex|verbs.QPAttrAccess)
}

// connect moves the QP to RTS, without retries.
func (e *end) connect(to *end, psn uint32) error {
	ah := verbs.AHAttr{Global: true, Port: 1, GRH: verbs.GlobalRoute{DGID: to.gid.GID, SGIDIndex: uint8(e.gid.Index), HopLimit: 64}}
	rtr := verbs.QPAttr{State: verbs.QPRTR, AH: ah, PathMTU: verbs.MTU1024, DestQPNum: to.qp.Num(), MaxDestRdAtomic: 4, MinRNRTimer: 12}
	if err := e.qp.Modify(&rtr, verbs.QPAttrState|verbs.QPAttrAV|verbs.QPAttrPathMTU|verbs.QPAttrDestQPNum|verbs.QPAttrRQPSN|
		verbs.QPAttrMaxDestRdAtomic|verbs.QPAttrMinRNRTimer); err != nil {
		return err
	}
	rts := verbs.QPAttr{State: verbs.QPRTS, SQPSN: psn, RetryCount: 7, RNRRetryCount: 7, MaxRdAtomic: 4}
	return e.qp.Modify(&rts, verbs.QPAttrState|verbs.QPAttrSQPSN|verbs.QPAttrTimeout|verbs.QPAttrRetryCount|verbs.QPAttrRNRRetryCount|verbs.QPAttrMaxRdAtomic)
}
