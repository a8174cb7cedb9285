// SPDX-License-Identifier: Apache-2.0

// Multicast sends a datagram to a group that has two members.
//
//	make bin/rdmavm
//	go run -exec "$PWD/bin/rdmavm -hosts 2" ./examples/multicast
package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"

	"purerdma/cm"
	"purerdma/examples/internal/example"
	"purerdma/verbs"
)

var group = cm.AddrFrom(netip.MustParseAddrPort("239.8.8.8:0")) // groups have no port

func main() { example.Main(run) }

func run(ctx context.Context, w io.Writer) error {
	ch, err := cm.NewEventChannel(nil)
	if err != nil {
		return err
	}
	defer ch.Close() // closes the IDs and their QPs
	from, to, err := join(ctx, ch, "10.8.0.1:0")
	if err != nil {
		return err
	}
	member, _, err := join(ctx, ch, "10.8.1.2:0")
	if err != nil {
		return err
	}
	// A datagram without a posted receive is lost.
	buf, err := member.PD().Alloc(4096, verbs.LocalWrite)
	if err != nil {
		return err
	}
	defer buf.Close()
	if _, err := member.PostRecv([]verbs.RecvWR{{SGList: []verbs.SGE{buf.SGE()}}}); err != nil {
		return err
	}
	ah, err := from.PD().CreateAH(to.AHAttr)
	if err != nil {
		return err
	}
	defer ah.Close()
	_, err = from.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled,
		InlineData: []byte("hello, all"), AH: ah, RemoteQPN: to.QPN, RemoteQKey: to.QKey}})
	if err != nil {
		return err
	}
	var wc [1]verbs.WC
	if _, err := member.RecvCQ().Wait(ctx, wc[:]); err != nil {
		return err
	}
	fmt.Fprintf(w, "the member received %q\n", buf.Bytes()[verbs.GRHLen:wc[0].ByteLen])
	return wc[0].Err()
}

// join makes a UD QP on the device that has a local address, and joins the group. It
// returns the address to send to.
func join(ctx context.Context, ch *cm.EventChannel, local string) (*verbs.QP, cm.UDParam, error) {
	id, err := ch.NewID(cm.IDConfig{PortSpace: cm.PortSpaceUDP})
	if err != nil {
		return nil, cm.UDParam{}, err
	}
	if err := id.Bind(cm.AddrFrom(netip.MustParseAddrPort(local))); err != nil {
		return nil, cm.UDParam{}, err
	}
	if err := id.CreateQP(nil, verbs.QPConfig{}); err != nil {
		return nil, cm.UDParam{}, err
	}
	if _, err := id.JoinMulticast(group, cm.FullMember); err != nil {
		return nil, cm.UDParam{}, err
	}
	ev, err := ch.Next(ctx) // EventMulticastJoin or EventMulticastError
	if err != nil {
		return nil, cm.UDParam{}, err
	}
	defer ev.Ack()
	return id.QP(), ev.UD, ev.Err()
}
