// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"runtime"
	"sync"

	"purerdma/cm"
	"purerdma/cmd/internal/addrinfo"
	"purerdma/cmd/internal/tool"
	"purerdma/verbs"
)

// queued is the maximum number of events that wait for a worker. It exceeds the number of a
// client's concurrent requests. While the queue is full, no events are fetched. Requests beyond
// the kernel's backlog are then lost and repeated seconds later. For fetched requests the peer
// gets a message to wait.
const queued = 1 << 16

// server accepts every client. A few workers process the events, so that the next events are
// fetched at the same time.
type server struct {
	u    *tool.UI
	qps  *maker
	work chan func()
	byID tool.ByID[accepted]
}

// runServer runs the server until ctx ends.
func runServer(ctx context.Context, ch *cm.EventChannel, opt *options, u *tool.UI) error {
	id, err := ch.NewID(cm.IDConfig{})
	if err != nil {
		u.Perror("listen request failed", err)
		return err
	}
	defer id.Close()
	local, _, err := opt.names.Resolve(ctx)
	if err != nil {
		u.Printf("getrdmaaddr error: %s\n", addrinfo.Strerror(err))
		u.Fail(err)
		return err
	}
	if err := id.Bind(local); err != nil {
		u.Perror("bind address failed", err)
		return err
	}
	if err := id.Listen(0); err != nil {
		u.Perror("failure trying to listen", err)
		return err
	}
	s := &server{u: u, qps: newMaker(), work: make(chan func(), queued)}
	return s.serve(ctx, ch)
}

// serve starts the workers and passes the events to them.
func (s *server) serve(ctx context.Context, ch *cm.EventChannel) error {
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for fn := range s.work {
				fn()
			}
		})
	}
	failed := make(chan error, 1)
	pump := tool.StartPump(ctx, ch, func(ev *cm.Event) {
		if fn := s.task(ev); fn != nil {
			s.work <- fn
		}
	}, func(err error) { failed <- err })
	var err error
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case err = <-failed:
		s.u.Perror("failure in rdma_get_cm_event in process_server_events", err)
	}
	pump.Stop()
	close(s.work)
	workers.Wait()
	return err
}

// accepted is a connection of the server. Its two tasks exclude each other, because its end may
// arrive while it is being accepted.
type accepted struct {
	sync.Mutex
	qp   *verbs.QP
	over bool
}

// task returns the task for an event, or nil if there is none.
func (s *server) task(ev *cm.Event) func() {
	id := ev.ID
	switch ev.Type {
	case cm.EventConnectRequest:
		a := new(accepted)
		s.byID.Store(id, a)
		return func() { s.accept(id, a) }
	case cm.EventDisconnected:
		if a := s.byID.Load(id); a != nil {
			return func() { s.close(id, a) }
		}
	case cm.EventConnectError, cm.EventUnreachable, cm.EventRejected:
		if st := id.State(); st != cm.StateFailed && st != cm.StateListening {
			return nil // a hint about an established or a closed connection
		}
		s.u.Printf("event: %v, error: %d\n", ev.Type, ev.Status)
		s.u.Fail(ev.Err())
		if a := s.byID.Load(id); a != nil {
			return func() { s.close(id, a) }
		}
	case cm.EventDeviceRemoval:
		s.u.Fail(ev.Err())
		if a := s.byID.Load(id); a != nil {
			return func() { s.close(id, a) }
		}
	}
	return nil
}

// accept accepts a connect request.
func (s *server) accept(id *cm.ID, a *accepted) {
	a.Lock()
	defer a.Unlock()
	if a.over {
		return
	}
	qp, err := s.qps.create(id)
	if err != nil {
		s.u.Perror("failure creating qp", err)
	} else {
		a.qp = qp
		if err = id.Accept(tool.NullConnParam()); err == nil {
			return
		}
		s.u.Perror("failure accepting", err)
	}
	s.u.Printf("failing connection request\n")
	id.Reject(nil)
	s.end(id, a)
}

// close answers the peer's disconnect and releases the connection.
func (s *server) close(id *cm.ID, a *accepted) {
	a.Lock()
	defer a.Unlock()
	if !a.over {
		id.Disconnect()
		s.end(id, a)
	}
}

func (s *server) end(id *cm.ID, a *accepted) {
	a.over = true
	id.Close()
	s.byID.Delete(id)
	if a.qp != nil {
		a.qp.Close()
	}
}
