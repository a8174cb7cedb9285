// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"context"
	"log"
	"net/netip"

	"purerdma/cm"
	"purerdma/verbs"
)

// answerGroup answers each sender to a group individually until ctx ends. group holds the
// parameters of EventMulticastJoin.
func answerGroup(ctx context.Context, id *cm.ID, group cm.UDParam) error {
	qp := id.QP()
	buf, err := qp.PD().Alloc(4096, verbs.LocalWrite)
	if err != nil {
		return err
	}
	defer buf.Close()
	for {
		if _, err := qp.PostRecv([]verbs.RecvWR{{ID: 1, SGList: []verbs.SGE{buf.SGE()}}}); err != nil {
			return err
		}
		var wc [1]verbs.WC
		if _, err := qp.RecvCQ().Wait(ctx, wc[:]); err != nil {
			return err
		}
		if err := wc[0].Err(); err != nil {
			return err
		}
		// The message follows the GRH, which holds the sender's address.
		header, msg := buf.Bytes()[:verbs.GRHLen], buf.Bytes()[verbs.GRHLen:wc[0].ByteLen]
		back, err := id.Device().AHAttrFromGroupWC(&group.AHAttr, &wc[0], header)
		if err != nil {
			log.Print(err) // the sender chooses the bytes, so that they may be invalid
			continue
		}
		// All QPs of RDMA_PS_UDP have the queue key of the group.
		to := cm.UDParam{AHAttr: back, QPN: wc[0].SrcQP, QKey: group.QKey}
		if err := send(ctx, qp, to, "got "+string(msg)); err != nil {
			return err
		}
	}
}

// This example is a member of a multicast group that answers each sender.
func ExampleID_JoinMulticast_answer() {
	ctx := context.Background()
	ch, err := cm.NewEventChannel(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ch.Close()
	id, err := ch.NewID(cm.IDConfig{PortSpace: cm.PortSpaceUDP})
	if err != nil {
		log.Fatal(err)
	}
	if err := id.Bind(cm.AddrFrom(netip.MustParseAddrPort("10.8.0.1:0"))); err != nil {
		log.Fatal(err)
	}
	if err := id.CreateQP(nil, verbs.QPConfig{}); err != nil {
		log.Fatal(err)
	}
	if _, err := id.JoinMulticast(cm.AddrFrom(netip.MustParseAddrPort("239.8.8.8:0")), cm.FullMember); err != nil {
		log.Fatal(err)
	}
	ev, err := ch.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer ev.Ack()
	if err := ev.Err(); err != nil {
		log.Fatal(err)
	}
	if err := answerGroup(ctx, id, ev.UD); err != nil {
		log.Fatal(err)
	}
}
