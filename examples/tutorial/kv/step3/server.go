// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"log"
	"sync"

	"purerdma/cm"
	"purerdma/examples/internal/example"
	"purerdma/verbs"
)

// Server serves a store to any number of clients.
type Server struct {
	mu     sync.Mutex // guards the following fields
	values map[string]string
	table  []byte // has the short values
}

// Serve accepts clients until ctx ends. It returns when all connections are closed.
func (s *Server) Serve(ctx context.Context, ln *cm.Listener) error {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		req, err := example.Accept(ctx, ln.Accept)
		if err != nil {
			return err
		}
		all.Go(func() {
			if err := s.serve(ctx, req); !errors.Is(err, io.EOF) && ctx.Err() == nil {
				log.Printf("client %v: %v", req.RemoteAddr(), err)
			}
		})
	}
}

// serve answers the requests of one client. It returns io.EOF when the client has disconnected.
func (s *Server) serve(ctx context.Context, req *cm.Request) error {
	defer req.Close()
	pd, err := req.PD() // of this connection only
	if err != nil {
		return err
	}
	mr, err := pd.RegMR(s.table, verbs.RemoteRead)
	if err != nil {
		return err
	}
	defer mr.Close()
	offer, _ := mr.Remote().MarshalBinary() // has no errors
	conn, err := req.Accept(ctx, nil, &cm.ConnParam{PrivateData: offer})
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		request, err := receive(ctx, conn)
		if err != nil {
			return err
		}
		if err := s.handle(request).send(ctx, conn); err != nil {
			return err
		}
	}
}

// handle carries out a request and returns its answer.
func (s *Server) handle(r message) (answer message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, found := s.values[r.Key]
	slot := s.table[offset(r.Key):][:slotSize]
	switch {
	case r.Op == "PUT":
		s.values[r.Key] = r.Value
		set(slot, r.Key, r.Value)
	case r.Op != "GET" && r.Op != "DELETE":
		answer.Error = "bad request"
	case !found:
		answer.Error = ErrNotFound
	case r.Op == "GET":
		answer.Value = value
	default:
		delete(s.values, r.Key)
		clear(slot)
	}
	return answer
}
