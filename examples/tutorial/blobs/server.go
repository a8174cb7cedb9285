// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"purerdma/examples/internal/example"
	"purerdma/msg"
)

// Operations. A request has its operation as the tag, and the key as its data.
const (
	opSize   = iota // The reply's tag is the length of the blob.
	opPut           // The request lends the blob for reading.
	opGet           // The request lends memory for the blob.
	opDelete        // The reply is empty.
	opList          // Each part of the reply is a key.
)

// maxBlob is the length of the longest blob in bytes.
const maxBlob = 32 << 20

// Server is a store of blobs in memory.
type Server struct {
	mu    sync.Mutex
	blobs map[string][]byte // no blob changes
}

// Serve answers clients until ctx ends. It returns when all connections are closed.
func (s *Server) Serve(ctx context.Context, ln *msg.Listener) error {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		conn, err := example.Accept(ctx, ln.Accept)
		if err != nil {
			return err
		}
		all.Go(func() { s.serve(ctx, conn) })
	}
}

// serve answers the requests of one client, each on a goroutine of its own.
func (s *Server) serve(ctx context.Context, conn *msg.Conn) error {
	var all sync.WaitGroup
	defer all.Wait()
	defer conn.Close() // which ends the requests in progress
	for {
		m, err := conn.Receive(ctx)
		if err != nil {
			return err // io.EOF when the client has disconnected
		}
		all.Go(func() {
			defer m.Free()
			if err := s.handle(m.Context(), conn, m); err != nil {
				_ = m.Fail(ctx, err.Error()) // the connection may have ended
			}
		})
	}
}

// handle answers a request. ctx ends when the client no longer waits for the answer.
func (s *Server) handle(ctx context.Context, conn *msg.Conn, m *msg.Message) error {
	key := string(m.Bytes())
	switch m.Tag() {
	case opSize:
		blob, err := s.get(key)
		if err != nil {
			return err
		}
		return m.Reply(ctx, uint64(len(blob)), nil)
	case opPut:
		return s.put(ctx, conn, m, key)
	case opGet:
		return s.send(ctx, conn, m, key)
	case opDelete:
		s.set(key, nil)
		return m.Reply(ctx, 0, nil)
	case opList:
		return s.list(ctx, m)
	}
	return fmt.Errorf("unknown operation %d", m.Tag())
}

// get returns the blob of a key.
func (s *Server) get(key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	blob, ok := s.blobs[key]
	if !ok {
		return nil, errors.New("no such key")
	}
	return blob, nil
}

// set changes the blob of a key, or deletes the key if there is no blob.
func (s *Server) set(key string, blob []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if blob == nil {
		delete(s.blobs, key)
		return
	}
	s.blobs[key] = blob
}
