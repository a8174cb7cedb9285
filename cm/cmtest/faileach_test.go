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

// lifeTime bounds the life of a connection. One that needs so long hangs.
const lifeTime = 20 * time.Second

// life is the whole life of a connection between two hosts: Listen, Dial, Accept, an echo, and
// Close of all.
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
			closeFully(ln) // and with it the requests that are left
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

// named reports whether an error says which operation on which object has failed. io.EOF says
// that the peer has ended the connection.
func named(err error) bool {
	if err == io.EOF {
		return true
	}
	var ofCM *cm.OpError
	var ofVerbs *verbs.OpError
	return errors.As(err, &ofCM) && ofCM.Op != "" || errors.As(err, &ofVerbs) && ofVerbs.Op != "" && ofVerbs.Object != ""
}

// TestEachCommandFails fails each command in the life of a connection once, of the connection
// manager and of the devices: nothing is left, nothing hangs, and every error names what has
// failed.
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
							t.Errorf("%v of %v hangs the %s: %v", errno, *hit.Load(), side, err)
						case !named(err):
							t.Errorf("%v of %v gives the %s an error without a name: %v", errno, *hit.Load(), side, err)
						}
						failed++
					}
					if left := expectNothing(k, before); len(left) > 0 {
						t.Errorf("%v of %v (client: %v; server: %v) leaves %q", errno, *hit.Load(), dialed, served, left)
					}
				}
			}
			if runs < 50 || failed < runs/2 {
				t.Errorf("%d runs, %d errors: the test shows nothing", runs, failed)
			}
			t.Logf("%d runs, %d errors", runs, failed)
		})
	}
}
