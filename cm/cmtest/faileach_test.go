// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cmtest_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/longtest"
	"purerdma/verbs"
)

// lifeTime bounds the life of a connection. A connection that exceeds it hangs.
const lifeTime = 20 * time.Second

// life runs a connection between two hosts from Listen, Dial and Accept to an echo and the
// Close of all objects.
func life(ctx context.Context, server, client *verbs.Host) (dialed, served error) {
	ln, err := (&cm.ListenConfig{Host: server}).Listen(ctx, "tcp", "10.0.0.1:7472")
	if err != nil {
		return err, nil
	}
	defer closeFully(ln)
	done := make(chan error, 1)
	go func() {
		err := serve(ctx, ln, nil)
		if err != nil {
			closeFully(ln) // closes the requests that have not been accepted
		}
		done <- err
	}()
	conn, err := (&cm.Dialer{Host: client}).Dial(ctx, "tcp", "10.0.0.1:7472")
	if err == nil {
		_, err = call(ctx, conn, "hello")
		closeFully(conn)
	}
	if err != nil {
		closeFully(ln)
	}
	return err, <-done
}

// named reports whether an error names the failed operation and its object. io.EOF is
// accepted, because it means that the peer has ended the connection.
func named(err error) bool {
	if err == io.EOF {
		return true
	}
	var ofCM *cm.OpError
	var ofVerbs *verbs.OpError
	return errors.As(err, &ofCM) && ofCM.Op != "" || errors.As(err, &ofVerbs) && ofVerbs.Op != "" && ofVerbs.Object != ""
}

// TestEachCommandFails fails each command in the life of a connection once. These are the
// commands of the connection manager and of the devices. After each failure, nothing is left
// open, nothing hangs, and every error names the failed operation.
func TestEachCommandFails(t *testing.T) {
	errnos := []error{syscall.ENOMEM}
	if longtest.Enabled() {
		errnos = []error{syscall.ENOMEM, syscall.EIO, syscall.EAGAIN, syscall.EINTR}
	}
	for name, machine := range machines {
		t.Run(name, func(t *testing.T) {
			runs, failed := 0, 0
			for _, errno := range errnos {
				for n := int64(1); ; n++ {
					k := cmtest.New(machine())
					var seen atomic.Int64
					var hit atomic.Pointer[cmtest.Command]
					k.OnCommand(func(c cmtest.Command) error {
						if seen.Add(1) != n {
							return nil
						}
						hit.Store(&c)
						return errno
					})
					before := restNow()
					ctx, cancel := context.WithTimeout(t.Context(), lifeTime)
					dialed, served := life(ctx, k.Host(), k.Host())
					cancel()
					if hit.Load() == nil {
						break
					}
					runs++
					for side, err := range map[string]error{"client": dialed, "server": served} {
						switch {
						case err == nil:
							continue
						case errors.Is(err, context.DeadlineExceeded):
							t.Errorf("%v of %v: the %s hangs: %v", errno, *hit.Load(), side, err)
						case !named(err):
							t.Errorf("%v of %v: the error of the %s does not name its operation: %v", errno, *hit.Load(), side, err)
						}
						failed++
					}
					if left := expectNothing(k, before); len(left) > 0 {
						t.Errorf("%v of %v (client: %v; server: %v): left %q, want nothing", errno, *hit.Load(), dialed, served, left)
					}
				}
			}
			if runs < 50 || failed < runs/2 {
				t.Errorf("%d runs, %d errors, want at least 50 runs and errors in half of them", runs, failed)
			}
			t.Logf("%d runs, %d errors", runs, failed)
		})
	}
}
