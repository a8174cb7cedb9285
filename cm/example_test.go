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

// This client has a default QP. It dials, sends a message, and waits for the answer.
func ExampleDial() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := cm.Dial(ctx, "tcp", "10.8.0.1:7471")
	var rej *cm.RejectError
	if errors.As(err, &rej) {
		log.Fatalf("refused: reason %d, private data %q", rej.Reason, rej.PrivateData)
	}
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	buf, err := conn.Alloc(8192, verbs.LocalWrite) // conn.Close frees it
	if err != nil {
		log.Fatal(err)
	}
	if err := conn.PostRecv(1, buf.Slice(4096, 4096)); err != nil {
		log.Fatal(err)
	}
	n := copy(buf.Bytes(), "hello")
	if err := conn.Send(ctx, buf.Slice(0, n)); err != nil {
		log.Fatal(err)
	}
	wc, err := conn.WaitRecv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", buf.Bytes()[4096:][:wc.ByteLen])
}

// This echo server has default QPs and one goroutine for each connection. No peer makes the
// listener fail. The server waits while the process is out of descriptors or memory.
func ExampleListener_Accept() {
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
			if err := serve(ctx, req); err != nil {
				log.Print(err)
			}
		}()
	}
}

// nextRequest waits for a request. It continues to wait while the process is out of
// descriptors or memory, because connections that end release some.
func nextRequest(ctx context.Context, ln *cm.Listener) (*cm.Request, error) {
	for {
		req, err := ln.Accept(ctx)
		var oe *cm.OpError
		if !errors.As(err, &oe) || !oe.Temporary() || ctx.Err() != nil {
			return req, err
		}
		log.Print(err)
		time.Sleep(100 * time.Millisecond)
	}
}

func serve(ctx context.Context, req *cm.Request) error {
	defer req.Close()
	const size = 4096
	buf, err := req.Alloc(2*size, verbs.LocalWrite)
	if err != nil {
		return err
	}
	// Post the receives before the peer can send. The second one is available while the server
	// answers the first.
	for id := range 2 {
		if err := req.PostRecv(uint64(id), buf.Slice(id*size, size)); err != nil {
			return err
		}
	}
	conn, err := req.Accept(ctx, nil, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		wc, err := conn.WaitRecv(ctx)
		if errors.Is(err, io.EOF) {
			return nil // the peer has disconnected
		}
		if err != nil {
			return err
		}
		at := int(wc.ID) * size
		if err := conn.Send(ctx, buf.Slice(at, int(wc.ByteLen))); err != nil {
			return err
		}
		if err := conn.PostRecv(wc.ID, buf.Slice(at, size)); err != nil {
			return err
		}
	}
}

// This client controls every stage. It creates its own PD, CQ and QP on the device of the
// route, and exchanges private data.
func ExampleResolve() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := cm.Resolve(ctx, "tcp", "10.8.0.1:7471")
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	pd, err := r.Device().AllocPD()
	if err != nil {
		log.Fatal(err)
	}
	defer pd.Close()
	cq, err := r.Device().CreateCQ(verbs.CQConfig{Entries: 256})
	if err != nil {
		log.Fatal(err)
	}
	defer cq.Close()
	qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{SendWR: 128, RecvWR: 128, SendSGE: 2, Inline: 64}})
	if err != nil {
		log.Fatal(err)
	}
	defer qp.Close()
	if err := r.Init(qp); err != nil { // receives can be posted from here on
		log.Fatal(err)
	}
	conn, err := r.Connect(ctx, qp, &cm.ConnParam{PrivateData: []byte("hello"), ResponderResources: 4})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	fmt.Printf("the peer said %q\n", conn.PrivateData())
	end, err := conn.Wait(ctx)
	fmt.Println(end, err)
}

// This client uses the calls of librdmacm with IDs on a channel. The outcomes of the calls are
// events.
func ExampleEventChannel() {
	ctx := context.Background()
	ch, err := cm.NewEventChannel(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ch.Close()
	id, err := ch.NewID(cm.IDConfig{})
	if err != nil {
		log.Fatal(err)
	}
	dst, err := cm.ParseAddr("10.8.0.1:7471")
	if err != nil {
		log.Fatal(err)
	}
	if err := id.ResolveAddr(cm.Addr{}, dst, 2*time.Second); err != nil {
		log.Fatal(err)
	}
	for ev, err := range ch.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		switch ev.Type {
		case cm.EventAddrResolved:
			err = id.ResolveRoute(2 * time.Second)
		case cm.EventRouteResolved:
			if err = id.CreateQP(nil, verbs.QPConfig{Type: verbs.RC}); err == nil {
				err = id.Connect(nil)
			}
		case cm.EventEstablished: // the library has moved the QP
			err = id.Disconnect()
		case cm.EventDisconnected:
			ev.Ack()
			return
		default:
			err = ev.Err()
		}
		ev.Ack()
		if err != nil {
			log.Fatal(err)
		}
	}
}
