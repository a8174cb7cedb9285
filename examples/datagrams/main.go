// SPDX-License-Identifier: Apache-2.0

// Datagrams looks up a datagram service, sends it a message, and receives the answer.
//
//	make bin/rdmavm
//	go run -exec "$PWD/bin/rdmavm -hosts 2" ./examples/datagrams
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

const (
	server = example.Server
	client = example.Client
)

func main() { example.Main(run) }

func run(ctx context.Context, w io.Writer) error {
	ln, err := cm.Listen(ctx, "udp", server)
	if err != nil {
		return err
	}
	defer ln.Close()
	served := make(chan error, 1)
	go func() { served <- serve(ctx, ln) }()
	d := cm.Dialer{LocalAddr: cm.AddrFrom(netip.MustParseAddrPort(client))}
	r, err := d.Resolve(ctx, "udp", server)
	if err != nil {
		return err
	}
	defer r.Close()
	buf, err := r.Alloc(4096, verbs.LocalWrite)
	if err != nil {
		return err
	}
	if err := r.PostRecv(1, buf.SGE()); err != nil {
		return err
	}
	to, err := r.Lookup(ctx, nil) // the QP that serves the address
	if err != nil {
		return err
	}
	qp, err := r.QP()
	if err != nil {
		return err
	}
	if err := send(qp, to, "hello"); err != nil {
		return err
	}
	var wc [1]verbs.WC
	if _, err := qp.RecvCQ().Wait(ctx, wc[:]); err != nil {
		return err
	}
	fmt.Fprintf(w, "the server answered %q\n", buf.Bytes()[verbs.GRHLen:wc[0].ByteLen])
	return <-served
}

// serve answers one look-up, and one datagram to its QP.
func serve(ctx context.Context, ln *cm.Listener) error {
	req, err := ln.Accept(ctx)
	if err != nil {
		return err
	}
	defer req.Close()
	qp, err := req.QP()
	if err != nil {
		return err
	}
	buf, err := req.Alloc(4096, verbs.LocalWrite)
	if err != nil {
		return err
	}
	if err := req.PostRecv(1, buf.SGE()); err != nil {
		return err
	}
	if err := req.Answer(nil, nil); err != nil {
		return err
	}
	var wc [1]verbs.WC
	if _, err := qp.RecvCQ().Wait(ctx, wc[:]); err != nil {
		return err
	}
	// The first bytes of the receive hold the sender's address. The message follows.
	back, err := req.Device().AHAttrFromWC(req.ID().Port(), &wc[0], buf.Bytes()[:verbs.GRHLen])
	if err != nil {
		return err
	}
	attr, err := qp.Query() // both sides have the same queue key
	if err != nil {
		return err
	}
	return send(qp, cm.UDParam{AHAttr: back, QPN: wc[0].SrcQP, QKey: attr.QKey}, "welcome")
}

// send posts one short datagram, which the post copies. The address handle ends with qp.
func send(qp *verbs.QP, to cm.UDParam, msg string) error {
	ah, err := qp.PD().CreateAH(to.AHAttr)
	if err != nil {
		return err
	}
	_, err = qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, InlineData: []byte(msg), AH: ah, RemoteQPN: to.QPN, RemoteQKey: to.QKey}})
	return err
}
