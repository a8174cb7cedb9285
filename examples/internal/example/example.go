// SPDX-License-Identifier: Apache-2.0

// Package example holds the parts that the example programs share.
package example

import (
	"context"
	"io"
	"log"
	"os"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// Server and Client are the addresses of the two ends of the micro-VM's wire. The port is
// in the port space of RDMA, not of TCP.
const (
	Server = "10.8.0.1:7471"
	Client = "10.8.1.2:0"
)

// Main runs a program for 30 seconds at most. If it fails, the process exits with status 1.
func Main(run func(context.Context, io.Writer) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := run(ctx, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// Offer accepts one connection, offers it memory with the given contents in the private data, and
// waits for the end of the connection. access lists the rights of the peer.
func Offer(ctx context.Context, ln *cm.Listener, contents []byte, access verbs.Access) error {
	req, err := ln.Accept(ctx)
	if err != nil {
		return err
	}
	defer req.Close()
	mr, err := req.Alloc(len(contents), verbs.LocalWrite|access)
	if err != nil {
		return err
	}
	copy(mr.Bytes(), contents)
	offer, err := mr.Remote().MarshalBinary()
	if err != nil {
		return err
	}
	conn, err := req.Accept(ctx, nil, &cm.ConnParam{PrivateData: offer})
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Wait(ctx)
	return err
}
