// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// msgSize is the size of the buffer of a message.
const msgSize = 64

// offer lends memory to the peer of a request, once for each message of the peer, until the
// peer disconnects. The connection has its own PD, so that no other peer reaches the memory.
func offer(ctx context.Context, req *cm.Request) error {
	defer req.Close()
	msgs, err := req.Alloc(3*msgSize, verbs.LocalWrite)
	if err != nil {
		return err
	}
	for id := range 2 {
		if err := req.PostRecv(uint64(id), msgs.Slice(id*msgSize, msgSize)); err != nil {
			return err
		}
	}
	conn, err := req.Accept(ctx, nil, nil)
	if err != nil {
		return err
	}
	defer conn.Close() // frees msgs
	for {
		err := message(ctx, conn, msgs)
		if err == nil {
			err = lend(ctx, conn, msgs)
		}
		if left := new(cm.DisconnectedError); errors.Is(err, io.EOF) || errors.As(err, &left) {
			return nil // the peer has disconnected, possibly before the completion of the last message to it
		}
		if err != nil {
			return err
		}
	}
}

// lend lets the peer read and write memory until its next message. The device does this
// without the program. The key ends with the registration. A later registration may get the
// same key. The connection's PD must therefore hold only memory that this peer may access.
func lend(ctx context.Context, conn *cm.Conn, msgs *verbs.MR) error {
	mr, err := conn.PD().Alloc(4096, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	if err != nil {
		return err
	}
	defer mr.Close()
	copy(mr.Bytes(), "read me")
	if _, err := mr.Remote().AppendBinary(msgs.Bytes()[2*msgSize : 2*msgSize]); err != nil {
		return err
	}
	if err := conn.Send(ctx, msgs.Slice(2*msgSize, verbs.RemoteMemoryLen)); err != nil {
		return err
	}
	if err := message(ctx, conn, msgs); err != nil {
		return err
	}
	fmt.Printf("the peer has written %q\n", mr.Bytes()[4000:4005])
	return nil
}

// message waits for a message with any text, and posts its receive again.
func message(ctx context.Context, conn *cm.Conn, msgs *verbs.MR) error {
	wc, err := conn.WaitRecv(ctx)
	if err != nil {
		return err
	}
	return conn.PostRecv(wc.ID, msgs.Slice(int(wc.ID)*msgSize, msgSize))
}

// reach requests memory of the peer, reads it, writes into it, and returns it to the peer.
func reach(ctx context.Context, conn *cm.Conn) (string, error) {
	// On iWARP, the peer's device writes the result of a READ.
	buf, err := conn.PD().Alloc(4096, verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		return "", err
	}
	defer buf.Close()
	if err := conn.PostRecv(1, buf.Slice(200, msgSize)); err != nil {
		return "", err
	}
	if err := conn.Send(ctx, buf.Slice(0, 1)); err != nil {
		return "", err
	}
	wc, err := conn.WaitRecv(ctx)
	if err != nil {
		return "", err
	}
	var theirs verbs.RemoteMemory
	if err := theirs.UnmarshalBinary(buf.Bytes()[200:][:wc.ByteLen]); err != nil {
		return "", err
	}
	if theirs.Length < 4096 {
		return "", fmt.Errorf("the peer lends %d bytes, want 4096", theirs.Length) // Slice would panic
	}
	if err := conn.Read(ctx, buf.Slice(0, 7), theirs); err != nil {
		return "", err // wraps a *verbs.WCError with the status, for example verbs.WCRemAccessErr
	}
	n := copy(buf.Bytes()[100:], "hello")
	if err := conn.Write(ctx, buf.Slice(100, n), theirs.Slice(4000, n)); err != nil {
		return "", err
	}
	return string(buf.Bytes()[:7]), conn.Send(ctx, buf.Slice(100, 1)) // returns the memory to the peer
}

// This client reads and writes memory of its peer.
func ExampleConn_Read() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := cm.Dial(ctx, "tcp", "10.8.0.1:7471")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	got, err := reach(ctx, conn)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(got)
	if _, err := conn.Disconnect(ctx); err != nil {
		log.Fatal(err)
	}
}

// This server offers memory that its peer reads and writes.
func ExampleRequest_Accept_memory() {
	ctx := context.Background()
	ln, err := cm.Listen(ctx, "tcp", ":7471")
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	for {
		req, err := nextRequest(ctx, ln)
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			if err := offer(ctx, req); err != nil {
				log.Print(err)
			}
		}()
	}
}
