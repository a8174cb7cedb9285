// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"

	"purerdma/cm"
)

// Server serves a store to one client.
type Server struct {
	values   map[string]string
	requests int // handled
}

// Serve serves one client until it disconnects.
func (s *Server) Serve(ctx context.Context, ln *cm.Listener) error {
	req, err := ln.Accept(ctx)
	if err != nil {
		return err
	}
	if err := s.serve(ctx, req); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// serve answers the requests of one client. It returns io.EOF when the client has disconnected.
func (s *Server) serve(ctx context.Context, req *cm.Request) error {
	defer req.Close()
	conn, err := req.Accept(ctx, nil, nil)
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
	s.requests++
	value, found := s.values[r.Key]
	switch {
	case r.Op == "PUT":
		s.values[r.Key] = r.Value
	case r.Op != "GET" && r.Op != "DELETE":
		answer.Error = "bad request"
	case !found:
		answer.Error = ErrNotFound
	case r.Op == "GET":
		answer.Value = value
	default:
		delete(s.values, r.Key)
	}
	return answer
}
