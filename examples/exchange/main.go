// SPDX-License-Identifier: Apache-2.0

// Exchange connects two queue pairs over a TCP connection, without the connection manager.
//
//	make bin/rdmavm
//	go run -exec "$PWD/bin/rdmavm -hosts 2" ./examples/exchange
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"purerdma/examples/internal/example"
	"purerdma/oob"
	"purerdma/verbs"
)

var (
	server = netip.MustParseAddrPort("10.8.0.1:18515")
	client = netip.MustParseAddrPort("10.8.1.2:0")
)

// connect is oob.ConnectActive on one side and oob.ConnectPassive on the other.
type connect func(context.Context, net.Conn, *verbs.QP, *oob.Path, oob.Address) (oob.Address, error)

func main() { example.Main(run) }

func run(ctx context.Context, w io.Writer) error {
	ln, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(server))
	if err != nil {
		return err
	}
	defer ln.Close()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(client)}
	conn, err := d.DialContext(ctx, "tcp", server.String())
	if err != nil {
		return err
	}
	defer conn.Close()
	accepted, err := ln.Accept()
	if err != nil {
		return err
	}
	defer accepted.Close()
	greeted := make(chan error, 1)
	go func() { greeted <- greet(ctx, accepted, 0, "welcome", oob.ConnectPassive, w) }()
	return errors.Join(greet(ctx, conn, 1, "hello", oob.ConnectActive, io.Discard), <-greeted)
}

// greet connects a QP of a device with the peer's, sends a message, and prints the peer's.
func greet(ctx context.Context, conn net.Conn, side int, msg string, connect connect, w io.Writer) error {
	list, err := verbs.DefaultHost().Devices()
	if err != nil || len(list) == 0 {
		return errors.Join(err, verbs.ErrNoDevice)
	}
	dev, err := verbs.DefaultHost().Open(list[side%len(list)].Name)
	if err != nil {
		return err
	}
	defer dev.Close()
	gid, err := dev.GIDFor(1, netip.Addr{}) // of port 1, any address that peers can reach
	if err != nil {
		return err
	}
	pd, err := dev.DefaultPD() // belongs to the device
	if err != nil {
		return err
	}
	buf, err := pd.Alloc(4096, verbs.LocalWrite)
	if err != nil {
		return err
	}
	defer buf.Close()
	qp, err := pd.CreateQP(verbs.QPConfig{})
	if err != nil {
		return err
	}
	defer qp.Close()
	path := oob.Path{SGIDIndex: gid.Index}
	if err := path.Init(qp); err != nil {
		return err
	}
	if _, err := qp.PostRecv([]verbs.RecvWR{{SGList: []verbs.SGE{buf.SGE()}}}); err != nil {
		return err
	}
	own, err := oob.Local(qp, &path)
	if err != nil {
		return err
	}
	if _, err := connect(ctx, conn, qp, &path, own); err != nil {
		return err
	}
	if _, err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, InlineData: []byte(msg)}}); err != nil {
		return err
	}
	var wc [1]verbs.WC
	if _, err := qp.RecvCQ().Wait(ctx, wc[:]); err != nil {
		return err
	}
	fmt.Fprintf(w, "the peer sent %q\n", buf.Bytes()[:wc[0].ByteLen])
	// The QP must stay until the peer has its message.
	if _, err := conn.Write([]byte{0}); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, make([]byte, 1))
	return err
}
