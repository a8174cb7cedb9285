// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"context"
	"log"
	"net/netip"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// This example sends a datagram to a service. The service's connection manager returns the
// number of the QP that serves it.
func ExampleResolved_Lookup() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := cm.Resolve(ctx, "udp", "10.8.0.1:7471")
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	to, err := r.Lookup(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	qp, err := r.QP()
	if err != nil {
		log.Fatal(err)
	}
	if err := send(ctx, qp, to, "hello"); err != nil {
		log.Fatal(err)
	}
}

// send sends one datagram and waits for its completion.
func send(ctx context.Context, qp *verbs.QP, to cm.UDParam, msg string) error {
	ah, err := qp.PD().CreateAH(to.AHAttr)
	if err != nil {
		return err
	}
	defer ah.Close()
	buf, err := qp.PD().Alloc(4096, verbs.LocalWrite)
	if err != nil {
		return err
	}
	defer buf.Close()
	n := copy(buf.Bytes(), msg)
	wrs := []verbs.SendWR{{
		Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{buf.Slice(0, n)},
		AH: ah, RemoteQPN: to.QPN, RemoteQKey: to.QKey,
	}}
	if _, err := qp.PostSend(wrs); err != nil {
		return err
	}
	var wc [1]verbs.WC
	if _, err := qp.SendCQ().Wait(ctx, wc[:]); err != nil {
		return err
	}
	return wc[0].Err()
}

// This example is a member of a multicast group. It binds to the device, creates the QP,
// joins, and sends to all members with the address in the event. Messages of other members
// arrive in the receives of the QP, each with a GRH of 40 bytes in front.
func ExampleID_JoinMulticast() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ch, err := cm.NewEventChannel(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ch.Close()
	id, err := ch.NewID(cm.IDConfig{PortSpace: cm.PortSpaceUDP})
	if err != nil {
		log.Fatal(err)
	}
	if err := id.Bind(cm.AddrFrom(netip.MustParseAddrPort("10.8.1.2:0"))); err != nil {
		log.Fatal(err)
	}
	if err := id.CreateQP(nil, verbs.QPConfig{}); err != nil {
		log.Fatal(err)
	}
	group, err := id.JoinMulticast(cm.AddrFrom(netip.MustParseAddrPort("239.8.8.8:0")), cm.FullMember)
	if err != nil {
		log.Fatal(err)
	}
	defer group.Leave()
	ev, err := ch.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer ev.Ack()
	if err := ev.Err(); err != nil { // EventMulticastError
		log.Fatal(err)
	}
	if err := send(ctx, id.QP(), ev.UD, "hello, all"); err != nil {
		log.Fatal(err)
	}
}

// This example is a datagram service with one QP for each client. It posts receives before the
// answer. The received message holds the client's address.
func ExampleRequest_Answer() {
	ctx := context.Background()
	ln, err := cm.Listen(ctx, "udp", ":7471")
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	req, err := nextRequest(ctx, ln)
	if err != nil {
		log.Fatal(err)
	}
	defer req.Close()
	qp, err := req.QP()
	if err != nil {
		log.Fatal(err)
	}
	buf, err := qp.PD().Alloc(4096, verbs.LocalWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer buf.Close()
	if err := req.PostRecv(1, buf.SGE()); err != nil {
		log.Fatal(err)
	}
	if err := req.Answer(nil, nil); err != nil {
		log.Fatal(err)
	}
	var wc [1]verbs.WC
	if _, err := qp.RecvCQ().Wait(ctx, wc[:]); err != nil {
		log.Fatal(err)
	}
	if err := wc[0].Err(); err != nil {
		log.Fatal(err)
	}
	const grh = 40 // bytes before the message
	back, err := req.Device().AHAttrFromWC(req.ID().Port(), &wc[0], buf.Bytes()[:grh])
	if err != nil {
		log.Fatal(err)
	}
	attr, err := qp.Query() // the peer's QP has the same queue key
	if err != nil {
		log.Fatal(err)
	}
	to := cm.UDParam{AHAttr: back, QPN: wc[0].SrcQP, QKey: attr.QKey}
	if err := send(ctx, qp, to, "got "+string(buf.Bytes()[grh:wc[0].ByteLen])); err != nil {
		log.Fatal(err)
	}
}
