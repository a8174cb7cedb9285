// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"purerdma/cmd/internal/tool"
	"purerdma/verbs"
)

func bind(ctx context.Context, opt *options, u *printer) (listener, error) {
	how := listen
	if opt.selfQP {
		how = selfListen
	}
	ln, err := how(ctx, opt)
	if err == nil {
		u.debugf("rdma_bind_addr successful\nrdma_listen\n")
	}
	return ln, err
}

// runServer serves one client and rejects others at the same time.
func runServer(ctx context.Context, opt *options, u *printer) error {
	ln, err := bind(ctx, opt, u)
	if err != nil {
		return err
	}
	defer ln.Close()
	var wait tool.Backoff
	p, _, err := ln.accept(ctx)
	for err != nil && wait.Wait(ctx, err) {
		u.Errorf("rping: %v\n", err)
		p, _, err = ln.accept(ctx)
	}
	if err != nil {
		return err
	}
	ln.Close()
	if err := serve(ctx, opt, u, p); err != nil {
		return &pingError{"server", err}
	}
	return nil
}

// runPersistentServer serves any number of clients until ctx ends. Each client has its own
// goroutine and shares nothing with others.
func runPersistentServer(ctx context.Context, opt *options, u *printer) error {
	ln, err := bind(ctx, opt, u)
	if err != nil {
		return err
	}
	defer ln.Close()
	var clients sync.WaitGroup
	defer clients.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wait tool.Backoff
	for {
		p, client, err := ln.accept(ctx)
		switch {
		case u.Failure() != nil:
			if err == nil {
				p.Close()
			}
			return nil // run reports it
		case err == nil:
			wait.Reset()
			clients.Go(func() {
				if err := serve(ctx, opt, u, p); err != nil && ctx.Err() == nil {
					u.fail(&pingError{"server", fmt.Errorf("client %s: %w", client, err)})
				}
				if u.Failure() != nil {
					cancel()
				}
			})
		case wait.Wait(ctx, err):
			u.Errorf("rping: %v\n", err)
		default:
			return err
		}
	}
}

// serve accepts one client and serves it until it leaves.
func serve(ctx context.Context, opt *options, u *printer, p pending) error {
	s, err := open(ctx, opt, u, p)
	if err != nil {
		return fmt.Errorf("connect error: %w", err)
	}
	err = s.pong()
	var gone *disconnectedError
	if errors.As(err, &gone) {
		u.Errorf("server DISCONNECT EVENT...\n")
		u.Errorf("%v\n", gone)
		err = nil
	}
	return errors.Join(err, s.close())
}

// pong answers pings until the client disconnects, which it returns as an error. It validates
// every message of the client.
func (s *session) pong() error {
	for {
		data, err := s.fetch()
		if err != nil {
			return err
		}
		if s.opt.verbose {
			if err := s.u.Printf("server ping data: %s\n", printable(data)); err != nil {
				return err
			}
		}
		if err := s.goAhead(); err != nil {
			return err
		}
		if err := s.echo(data); err != nil {
			return err
		}
		if err := s.goAhead(); err != nil {
			return err
		}
	}
}

// fetch reads the data of the next ping.
func (s *session) fetch() ([]byte, error) {
	src, err := s.offered(readAdv)
	if err != nil {
		return nil, err
	}
	n, err := src.source(s.data.Len())
	if err != nil {
		return nil, err
	}
	if err := s.post(verbs.OpRead, s.data.Slice(0, n), src); err != nil {
		return nil, err
	}
	s.u.debugf("server posted rdma read req \n")
	if err := s.drain(); err != nil {
		return nil, waiting(readComplete, err)
	}
	s.u.debugf("server received read complete\n")
	return text(s.data.Bytes()[:n])
}

// echo writes the data back.
func (s *session) echo(data []byte) error {
	dst, err := s.offered(writeAdv)
	if err != nil {
		return err
	}
	if err := dst.sink(len(data)); err != nil {
		return err
	}
	local := s.data.Slice(0, len(data))
	s.u.debugf("rdma write from lkey %x laddr %x len %d\n", local.LKey, local.Addr, local.Length)
	if err := s.post(verbs.OpWrite, local, dst); err != nil {
		return err
	}
	if err := s.drain(); err != nil {
		return waiting(writeComplete, err)
	}
	s.u.debugf("server rdma write complete \n")
	return nil
}

// offered waits for the client to announce a buffer.
func (s *session) offered(want state) (info, error) {
	msg, err := s.receive(want)
	if err != nil {
		return info{}, err
	}
	s.u.debugf("Received rkey %x addr %x len %d from peer\nserver received sink adv\n", msg.rkey, msg.addr, msg.size)
	return msg, nil
}

func (s *session) goAhead() error {
	if err := s.send(info{}); err != nil {
		return err
	}
	s.u.debugf("server posted go ahead\n")
	return nil
}
