// SPDX-License-Identifier: Apache-2.0

package oob_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/netip"
	"time"

	"purerdma/oob"
	"purerdma/verbs"
)

// greet connects a QP by an exchange over conn, sends a message, and returns the peer's
// message. connect is oob.ConnectActive on one side and oob.ConnectPassive on the other.
func greet(ctx context.Context, dev *verbs.Device, conn net.Conn, words string,
	connect func(context.Context, net.Conn, *verbs.QP, *oob.Path, oob.Address) (oob.Address, error)) (string, error) {
	pd, err := dev.AllocPD()
	if err != nil {
		return "", err
	}
	defer pd.Close()
	buf, err := pd.Alloc(8192, verbs.LocalWrite)
	if err != nil {
		return "", err
	}
	defer buf.Close()
	qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC})
	if err != nil {
		return "", err
	}
	defer qp.Close()
	gid, err := dev.GIDFor(1, netip.Addr{})
	if err != nil {
		return "", err
	}
	path := oob.Path{SGIDIndex: gid.Index}
	if err := path.Init(qp); err != nil {
		return "", err
	}
	// Post the receive first. The peer may send as soon as it is connected.
	if _, err := qp.PostRecv([]verbs.RecvWR{{SGList: []verbs.SGE{buf.Slice(0, 4096)}}}); err != nil {
		return "", err
	}
	own, err := oob.Local(qp, &path)
	if err != nil {
		return "", err
	}
	if _, err := connect(ctx, conn, qp, &path, own); err != nil {
		return "", err
	}
	n := copy(buf.Bytes()[4096:], words)
	if _, err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{buf.Slice(4096, n)}}}); err != nil {
		return "", err
	}
	var sent, received [1]verbs.WC
	if _, err := qp.SendCQ().Wait(ctx, sent[:]); err != nil {
		return "", err
	}
	if err := sent[0].Err(); err != nil {
		return "", err
	}
	if _, err := qp.RecvCQ().Wait(ctx, received[:]); err != nil {
		return "", err
	}
	return string(buf.Bytes()[:received[0].ByteLen]), received[0].Err()
}

// The side that has dialed a TCP connection calls oob.ConnectActive on it. The side that has
// accepted it calls oob.ConnectPassive instead.
func ExampleConnectActive() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	dev, err := verbs.DefaultHost().Open("rxe0")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", "10.8.0.1:18515")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	answer, err := greet(ctx, dev, conn, "hello", oob.ConnectActive)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer)
}
