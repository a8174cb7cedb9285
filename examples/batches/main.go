// SPDX-License-Identifier: Apache-2.0

// Batches writes into a peer's memory with a completion queue of its own, many requests
// with each doorbell, and no allocation in the loop.
//
//	make bin/rdmavm
//	go run -exec "$PWD/bin/rdmavm -hosts 2" ./examples/batches
package main

import (
	"context"
	"errors"
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
	size   = 64  // of one WRITE
	count  = 256 // of all WRITEs
	batch  = 16  // WRITEs with one doorbell
)

func main() { example.Main(run) }

func run(ctx context.Context, w io.Writer) error {
	ln, err := cm.Listen(ctx, "tcp", server)
	if err != nil {
		return err
	}
	defer ln.Close()
	served := make(chan error, 1)
	go func() { served <- example.Offer(ctx, ln, make([]byte, size*count), verbs.RemoteWrite) }()
	return errors.Join(dial(ctx, w), <-served)
}

func dial(ctx context.Context, w io.Writer) error {
	d := cm.Dialer{LocalAddr: cm.AddrFrom(netip.MustParseAddrPort(client))}
	r, err := d.Resolve(ctx, "tcp", server)
	if err != nil {
		return err
	}
	defer r.Close()
	pd, err := r.PD()
	if err != nil {
		return err
	}
	cq, err := r.Device().CreateCQ(verbs.CQConfig{Entries: count})
	if err != nil {
		return err
	}
	defer cq.Close()
	qp, err := pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{SendWR: 2 * batch, RecvWR: 1}})
	if err != nil {
		return err
	}
	defer qp.Close()
	mr, err := r.Alloc(size*count, verbs.LocalWrite)
	if err != nil {
		return err
	}
	conn, err := r.Connect(ctx, qp, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	var theirs verbs.RemoteMemory
	if err := theirs.UnmarshalBinary(conn.PrivateData()[:verbs.RemoteMemoryLen]); err != nil {
		return err
	}
	if theirs.Length < size*count { // Slice would panic
		return fmt.Errorf("the server offers %d bytes, want %d", theirs.Length, size*count)
	}
	if err := write(ctx, qp, mr, theirs); err != nil {
		return conn.Explain(err)
	}
	fmt.Fprintf(w, "%d WRITEs with %d doorbells\n", count, count/batch)
	_, err = conn.Disconnect(ctx)
	return err
}

// write posts the WRITEs in batches and waits for the last one of each, which has a
// completion.
func write(ctx context.Context, qp *verbs.QP, mr *verbs.MR, theirs verbs.RemoteMemory) error {
	var b verbs.Batch
	var wc [1]verbs.WC
	b.Reset(qp)
	for at := range count {
		last := (at+1)%batch == 0
		var flags verbs.SendFlags
		if last {
			flags = verbs.SendSignaled
		}
		b.Write(uint64(at), mr.Slice(at*size, size), theirs.Slice(at*size, size), flags)
		if !last {
			continue
		}
		if err := b.Post(); err != nil {
			return err
		}
		if _, err := qp.SendCQ().Wait(ctx, wc[:]); err != nil {
			return err
		}
		if err := wc[0].Err(); err != nil {
			return err
		}
	}
	return nil
}
