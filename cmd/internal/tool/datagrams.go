// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"errors"
	"fmt"

	"purerdma/cm"
	"purerdma/verbs"
)

// Datagrams is a UD QP of udaddy or mckey with its resources. Both programs send a number of
// datagrams of one size. Each datagram carries the number of its source QP.
type Datagrams struct {
	ID    *cm.ID
	U     *UI
	Count int
	Size  int // bytes

	// Destination of the datagrams. AH is nil while the destination is unknown.
	AH        *verbs.AH
	RemoteQPN uint32
	QKey      uint32

	pd *verbs.PD
	cq *verbs.CQ
	qp *verbs.QP
	mr *verbs.MR // one buffer for received (after a GRH) and sent datagrams, as in C
}

// Init creates the objects when the ID's device is known. It prints a failure.
func (d *Datagrams) Init() error {
	dev := d.ID.Device()
	if err := d.checkSize(dev); err != nil {
		return err
	}
	var err error
	if d.pd, err = dev.AllocPD(); err != nil {
		return d.failed(StatusNoMem, "unable to allocate PD", err)
	}
	depth := max(d.Count, 1)
	if d.cq, err = dev.CreateCQ(verbs.CQConfig{Entries: 2 * depth}); err != nil {
		return d.failed(StatusNoMem, "unable to create CQ", err)
	}
	d.qp, err = d.pd.CreateQP(verbs.QPConfig{
		Type: verbs.UD, SendCQ: d.cq, RecvCQ: d.cq,
		Cap: verbs.QPCap{SendWR: depth, RecvWR: depth, SendSGE: 1, RecvSGE: 1},
	})
	if err == nil {
		err = d.ID.UseQP(d.qp)
	}
	if err != nil {
		d.U.Perror(d.U.Name+": unable to create QP", err)
		return err
	}
	if d.Count == 0 {
		return nil
	}
	if d.mr, err = d.pd.Alloc(d.Size+verbs.GRHLen, verbs.LocalWrite); err != nil {
		d.U.Printf("failed to reg MR\n")
		return d.failed(StatusFailed, "failed to create messages: -1", err)
	}
	return nil
}

// checkSize rejects datagrams that do not fit into one packet.
func (d *Datagrams) checkSize(dev *verbs.Device) error {
	port, err := dev.QueryPort(d.ID.Port())
	if err != nil {
		d.U.Fail(err)
		return err
	}
	if mtu := port.ActiveMTU.Bytes(); d.Count > 0 && d.Size > mtu {
		d.U.Printf("%s: message_size %d is larger than active mtu %d\n", d.U.Name, d.Size, mtu)
		return &StatusError{Status: StatusInval, Err: fmt.Errorf("%d bytes do not fit into a packet of %d", d.Size, mtu)}
	}
	return nil
}

// failed prints a failure as the C program does.
func (d *Datagrams) failed(status int, what string, err error) error {
	d.U.Printf("%s: %s\n", d.U.Name, what)
	d.U.Fail(err)
	return &StatusError{Status: status, Err: err}
}

// Address sets the destination of the datagrams.
func (d *Datagrams) Address(to *cm.UDParam) error {
	d.RemoteQPN, d.QKey = to.QPN, to.QKey
	var err error
	if d.AH, err = d.pd.CreateAH(to.AHAttr); err != nil {
		return d.failed(StatusFailed, "failure creating address handle", err)
	}
	return nil
}

// PostRecvs posts a receive for every datagram.
func (d *Datagrams) PostRecvs() error {
	if d.mr == nil {
		return nil
	}
	wr := []verbs.RecvWR{{SGList: []verbs.SGE{d.mr.SGE()}}}
	for range d.Count {
		if _, err := d.qp.PostRecv(wr); err != nil {
			d.U.Printf("failed to post receives: -1\n")
			d.U.Fail(err)
			return err
		}
	}
	return nil
}

// PostSends posts every datagram. flags is verbs.SendSignaled or 0.
func (d *Datagrams) PostSends(flags verbs.SendFlags) error {
	if d.mr == nil {
		return nil
	}
	wr := []verbs.SendWR{{
		Opcode: verbs.OpSendImm, Flags: flags, ImmData: d.qp.Num(), SGList: []verbs.SGE{d.mr.Slice(0, d.Size)},
		AH: d.AH, RemoteQPN: d.RemoteQPN, RemoteQKey: d.QKey,
	}}
	for range d.Count {
		if _, err := d.qp.PostSend(wr); err != nil {
			d.U.Printf("failed to post sends: -1\n")
			d.U.Fail(err)
			return err
		}
	}
	return nil
}

// Await waits for as many completions as there are datagrams. It passes each completion to
// note, unless note is nil.
func (d *Datagrams) Await(ctx context.Context, note func(*verbs.WC) error) error {
	if d.mr == nil {
		return nil
	}
	var wcs [8]verbs.WC
	for done := 0; done < d.Count; {
		// Poll at most the missing completions. Later ones belong to the next call.
		n, err := d.cq.Wait(ctx, wcs[:min(len(wcs), d.Count-done)])
		for i := range wcs[:n] {
			if err = wcs[i].Err(); err == nil && note != nil {
				err = note(&wcs[i])
			}
			if err != nil {
				break
			}
			done++
		}
		if err != nil {
			d.U.Printf("%s: failed polling CQ: -1\n", d.U.Name)
			d.U.Fail(err)
			return err
		}
	}
	return nil
}

// AnswerTo makes the sender of a datagram the destination of the next ones.
func (d *Datagrams) AnswerTo(wc *verbs.WC) error {
	if wc.Flags&verbs.WCWithImm == 0 {
		return errors.New("a datagram does not carry the number of its QP")
	}
	attr, err := d.ID.Device().AHAttrFromWC(d.ID.Port(), wc, d.mr.Bytes()[:verbs.GRHLen])
	if err != nil {
		return err
	}
	own, err := d.qp.Query()
	if err != nil {
		return err
	}
	d.RemoteQPN, d.QKey = wc.ImmData, own.QKey
	d.AH, err = d.pd.CreateAH(attr)
	return err
}

// Close releases all objects.
func (d *Datagrams) Close() error {
	// Close the ID first, because that detaches the QP.
	errs := []error{d.ID.Close()}
	if d.qp != nil {
		errs = append(errs, d.qp.Close())
	}
	if d.AH != nil {
		errs = append(errs, d.AH.Close())
	}
	if d.cq != nil {
		errs = append(errs, d.cq.Close())
	}
	if d.mr != nil {
		errs = append(errs, d.mr.Close())
	}
	if d.pd != nil {
		errs = append(errs, d.pd.Close())
	}
	return errors.Join(errs...)
}
