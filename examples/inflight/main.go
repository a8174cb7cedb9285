// SPDX-License-Identifier: Apache-2.0

// Inflight reads 64 blocks of the peer's memory, with at most 16 READs in flight, in three ways: by
// tokens, by functions and by goroutines.
//
//	make bin/rdmavm
//	go run -exec "$PWD/bin/rdmavm -hosts 2" ./examples/inflight
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"purerdma/cm"
	"purerdma/examples/internal/example"
	"purerdma/pool"
	"purerdma/verbs"
)

const (
	blocks    = 64
	blockSize = 4096
	inFlight  = 16
)

// source is memory of the peer, and memory that takes its blocks.
type source struct {
	conn   *cm.Conn
	pool   *pool.Pool
	theirs verbs.RemoteMemory
}

func (s *source) block(i int) verbs.RemoteMemory { return s.theirs.Slice(i*blockSize, blockSize) }

// sum adds the bytes of a block.
func sum(b []byte) (n int) {
	for _, x := range b {
		n += int(x)
	}
	return n
}

func main() { example.Main(run) }

func run(ctx context.Context, w io.Writer) error {
	ln, err := cm.Listen(ctx, "tcp", example.Server)
	if err != nil {
		return err
	}
	defer ln.Close()
	served := make(chan error, 1)
	go func() { served <- example.Offer(ctx, ln, contents(), verbs.RemoteRead) }()
	return errors.Join(dial(ctx, w), <-served)
}

// contents returns the bytes of the blocks.
func contents() []byte {
	b := make([]byte, blocks*blockSize)
	for i := range b {
		b[i] = byte(i / blockSize)
	}
	return b
}

func dial(ctx context.Context, w io.Writer) error {
	d := cm.Dialer{LocalAddr: cm.AddrFrom(netip.MustParseAddrPort(example.Client))}
	conn, err := d.Dial(ctx, "tcp", example.Server)
	if err != nil {
		return err
	}
	defer conn.Close()
	s := &source{conn: conn}
	data := conn.PrivateData()
	if err := s.theirs.UnmarshalBinary(data[:min(len(data), verbs.RemoteMemoryLen)]); err != nil {
		return err
	}
	if s.theirs.Length < blocks*blockSize { // Slice would panic
		return fmt.Errorf("the server offers %d bytes, want %d", s.theirs.Length, blocks*blockSize)
	}
	// On iWARP the peer's device writes the data of a READ, which takes RemoteWrite.
	if s.pool, err = pool.New(conn.PD(), pool.Config{Access: verbs.LocalWrite | verbs.RemoteWrite}); err != nil {
		return err
	}
	defer s.pool.Close()
	for _, way := range []struct {
		name string
		sum  func(context.Context, *source) (int, error)
	}{{"tokens", byTokens}, {"functions", byFunctions}, {"goroutines", byGoroutines}} {
		total, err := way.sum(ctx, s)
		if err != nil {
			return conn.Explain(err)
		}
		fmt.Fprintf(w, "%s: %d\n", way.name, total)
	}
	_, err = conn.Disconnect(ctx)
	return err
}
