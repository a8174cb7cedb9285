// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// window is what a peer has to know of memory that it may reach: it goes to the
// peer as private data.
type window struct {
	Addr uint64
	RKey uint32
	Len  uint32
}

func (w window) bytes() []byte {
	b, _ := binary.Append(nil, binary.BigEndian, w)
	return b
}

func parseWindow(b []byte) (w window, err error) {
	_, err = binary.Decode(b, binary.BigEndian, &w) // zeros may follow
	return w, err
}

// offer lets the peer of a request read and write memory until it disconnects. The
// program has no part in that: the device does it.
func offer(ctx context.Context, req *cm.Request) error {
	defer req.Close()
	pd, err := req.PD()
	if err != nil {
		return err
	}
	mr, err := pd.Alloc(4096, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	if err != nil {
		return err
	}
	defer mr.Close()
	copy(mr.Bytes(), "read me")
	param := cm.DefaultConnParam()
	param.PrivateData = window{Addr: mr.Addr(), RKey: mr.RKey(), Len: uint32(mr.Len())}.bytes()
	conn, err := req.Accept(ctx, nil, &param)
	if err != nil {
		return err
	}
	defer conn.Close() // before the memory: the peer may still write
	if _, err := conn.Wait(ctx); err != nil {
		return err
	}
	fmt.Printf("the peer has written %q\n", mr.Bytes()[4000:4005])
	return nil
}

// reach reads what the peer offers, and writes into it.
func reach(ctx context.Context, conn *cm.Conn) (string, error) {
	w, err := parseWindow(conn.PrivateData())
	if err != nil {
		return "", err
	}
	if w.Len < 4096 {
		return "", fmt.Errorf("the peer offers %d bytes", w.Len)
	}
	// On iWARP what a READ brings is written by the peer's device.
	buf, err := conn.PD().Alloc(4096, verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		return "", err
	}
	defer buf.Close()
	if err := conn.Read(ctx, buf.Slice(0, 7), w.Addr, w.RKey); err != nil {
		return "", err // a *verbs.WCError in it has the status, as verbs.WCRemAccessErr
	}
	n := copy(buf.Bytes()[100:], "hello")
	if err := conn.Write(ctx, buf.Slice(100, n), w.Addr+4000, w.RKey); err != nil {
		return "", err
	}
	return string(buf.Bytes()[:7]), nil
}

// A client that reads and writes the memory of its peer, which the peer has told of
// in the private data of its acceptance.
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

// The side whose memory is read and written.
func ExampleRequest_Accept_memory() {
	ctx := context.Background()
	ln, err := cm.Listen(ctx, "tcp", ":7471")
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	for {
		req, err := ln.Accept(ctx)
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
