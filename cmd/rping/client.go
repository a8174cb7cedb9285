// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"purerdma/verbs"
)

// errMismatch reports that the server has written other data than it has read.
var errMismatch = errors.New("data mismatch")

// runClient connects, pings, and disconnects.
func runClient(ctx context.Context, opt *options, u *printer) error {
	connect := dial
	if opt.selfQP {
		connect = selfDial
	}
	p, err := connect(ctx, opt)
	if err != nil {
		return err
	}
	u.debugf("rdma_resolve_addr - rdma_resolve_route successful\n")
	s, err := open(ctx, opt, u, p)
	if err != nil {
		return err
	}
	u.debugf("rdma_connect successful\n")
	done, err := s.ping()
	err = s.leave(ctx, done, err)
	return errors.Join(err, s.close())
}

// ping pings until the count is reached. It returns the number of completed pings.
func (s *session) ping() (done int, err error) {
	for s.opt.count == 0 || done < s.opt.count {
		fill(s.start.Bytes(), done)
		if err := s.offer(s.start, writeAdv); err != nil {
			return done, err
		}
		if err := s.offer(s.data, writeComplete); err != nil {
			return done, err
		}
		if s.opt.validate && !bytes.Equal(s.start.Bytes(), s.data.Bytes()) {
			return done, errMismatch
		}
		if s.opt.verbose {
			if err := s.u.Printf("ping data: %s\n", printable(s.data.Bytes())); err != nil {
				return done, err
			}
		}
		done++
	}
	return done, nil
}

// offer announces a buffer to the server and waits until the server has used it.
func (s *session) offer(mr *verbs.MR, want state) error {
	msg := info{addr: mr.Addr(), rkey: mr.RKey(), size: uint32(mr.Len())}
	s.u.debugf("RDMA addr %x rkey %x len %d\n", msg.addr, msg.rkey, msg.size)
	if err := s.send(msg); err != nil {
		return err
	}
	_, err := s.receive(want)
	return err
}

// leave ends the connection after the pings and returns their result. A server that leaves
// before all pings are done is a failure here, but not in the C program.
func (s *session) leave(ctx context.Context, done int, err error) error {
	var gone *disconnectedError
	if errors.As(err, &gone) {
		s.u.Errorf("client DISCONNECT EVENT...\n")
		s.u.Errorf("%v\n", gone)
		if s.opt.count == 0 {
			return nil
		}
		return &pingError{"client", fmt.Errorf("the server disconnected after %d of %d pings", done, s.opt.count)}
	}
	if err != nil {
		err = &pingError{"client", fmt.Errorf("ping %d: %w", done, err)}
	}
	ctx, cancel := context.WithTimeout(ctx, disconnectGrace)
	defer cancel()
	// Without an answer the connection has still ended.
	if _, derr := s.conn.Disconnect(ctx); derr == nil {
		s.u.Errorf("client DISCONNECT EVENT...\n")
	}
	return err
}
