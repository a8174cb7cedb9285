// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"purerdma/msg"
)

// put reads the blob from the client's memory.
func (s *Server) put(ctx context.Context, conn *msg.Conn, m *msg.Message, key string) error {
	lent, _ := m.Lent()
	if lent.Length == 0 || lent.Length > maxBlob {
		return fmt.Errorf("a blob of %d bytes, want 1 to %d", lent.Length, maxBlob)
	}
	b, err := conn.Pool().Get(ctx, int(lent.Length))
	if err != nil {
		return err
	}
	defer b.Free()
	if err := m.ReadLent(ctx, b.SGE(), 0); err != nil {
		return err
	}
	s.set(key, bytes.Clone(b.Bytes()))
	return m.Reply(ctx, 0, nil)
}

// send writes the blob into the client's memory.
func (s *Server) send(ctx context.Context, conn *msg.Conn, m *msg.Message, key string) error {
	blob, err := s.get(key)
	if err != nil {
		return err
	}
	if _, lent := m.Lent(); lent.Length < uint64(len(blob)) {
		return fmt.Errorf("%d bytes of memory for a blob of %d", lent.Length, len(blob))
	}
	b, err := conn.Pool().Borrow(ctx, blob) // registers the blob, or copies a short one
	if err != nil {
		return err
	}
	defer b.Free()
	if err := m.WriteLent(ctx, b.SGE(), 0); err != nil {
		return err
	}
	return m.Reply(ctx, uint64(len(blob)), nil)
}

// list sends the keys, each in a part of its own.
func (s *Server) list(ctx context.Context, m *msg.Message) error {
	s.mu.Lock()
	keys := slices.Sorted(maps.Keys(s.blobs))
	s.mu.Unlock()
	for _, key := range keys {
		if err := m.ReplyPart(ctx, 0, []byte(key)); err != nil {
			return err // of ctx, if the client has seen enough
		}
	}
	return m.Reply(ctx, 0, nil)
}
