// SPDX-License-Identifier: Apache-2.0

//go:build linux

package streamconntest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/longtest"
)

// Life makes the two sides of a connection and uses them.
type Life struct {
	Listen func(cm.ListenConfig) (Listener, error)
	Dial   func(ctx context.Context, d cm.Dialer, to string) (io.Closer, error)
	// Use and Serve use the connection on the dialing and the accepting side, and close it. The context of Use may
	// end at any time.
	Use, Serve func(ctx context.Context, c io.Closer) error
	// Documented reports whether an error of Dial or Use has the type that the package documents.
	Documented func(error) bool
}

// Crossings is CrossingsOf a stream, on which one byte crosses in each direction. Errors are of type *net.OpError.
func Crossings(t *testing.T, listen func(cm.ListenConfig) (Listener, error), dial func(ctx context.Context, d cm.Dialer, to string) (io.Closer, error)) {
	CrossingsOf(t, &Life{listen, dial, ask, answer, func(err error) bool {
		_, ok := err.(*net.OpError)
		return ok
	}})
}

// CrossingsOf runs the life of a connection, from Listen to Close, again and again. Each time another command or
// message fails, or the context ends there. After each run nothing is left open, nothing hangs, and the error of
// the client has the documented type. The short form takes every fifth point.
func CrossingsOf(t *testing.T, life *Life) {
	for name, arm := range map[string]func(k *cmtest.Kernel, cancel func(), here func(what string) bool){
		"failed command": func(k *cmtest.Kernel, _ func(), here func(string) bool) {
			k.OnCommand(func(c cmtest.Command) error {
				if !destroys(c.Name) && here(c.Device+" "+c.Name) {
					return syscall.ENOMEM
				}
				return nil
			})
		},
		"end of the context": func(k *cmtest.Kernel, cancel func(), here func(string) bool) {
			k.OnCommand(func(c cmtest.Command) error {
				if here(c.Device + " " + c.Name) {
					cancel()
				}
				return nil
			})
		},
		"lost message": func(k *cmtest.Kernel, _ func(), here func(string) bool) {
			k.OnMessage(func(m cmtest.Message) (cmtest.Fate, time.Duration) {
				if here(string(m.Type)) {
					return cmtest.Lost, 0
				}
				return cmtest.Arrives, 0
			})
		},
		"unplugged device": func(k *cmtest.Kernel, _ func(), here func(string) bool) {
			k.OnCommand(func(c cmtest.Command) error {
				if here(c.Device + " " + c.Name) {
					k.Unplug("rxe0")
				}
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			step := int64(5)
			if longtest.Enabled() || name == "lost message" {
				step = 1
			}
			for n := int64(1); ; n += step {
				k := RXE(t)
				k.Retry = time.Millisecond
				ctx, cancel := context.WithTimeout(t.Context(), Limit)
				var seen atomic.Int64
				var hit atomic.Pointer[string]
				arm(k, cancel, func(what string) bool {
					if seen.Add(1) != n {
						return false
					}
					hit.Store(&what)
					return true
				})
				dialed, served := life.live(ctx, k)
				cancel()
				if hit.Load() == nil {
					if seen.Load() < 3 || dialed != nil || served != nil {
						t.Errorf("crossings = %d, errors of an undisturbed connection = %v, %v, want 3 or more, <nil>, <nil>", seen.Load(), dialed, served)
					}
					return
				}
				if dialed != nil && !life.Documented(dialed) {
					t.Errorf("%s: error of the client = %v (%T), want the documented type", *hit.Load(), dialed, dialed)
				}
				if name == "lost message" && (dialed != nil || served != nil) {
					t.Errorf("%s: errors = %v, %v, want none, because it is repeated", *hit.Load(), dialed, served)
				}
				for _, err := range []error{dialed, served} {
					if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("%s: a side hangs: %v", *hit.Load(), err)
					}
				}
				if left := left(k); len(left) > 0 {
					t.Fatalf("%s: Left() = %q, want nothing (errors: %v, %v)", *hit.Load(), left, dialed, served)
				}
			}
		})
	}
}

// crossingKeepAlive is the idle time after which a side probes its peer, whose device may be unplugged.
const crossingKeepAlive = 20 * time.Millisecond

// destroys reports whether a command destroys an object. The kernel does not fail these for lack of memory.
func destroys(command string) bool {
	for _, word := range []string{"DESTROY", "DEALLOC", "DEREG", "close"} {
		if strings.Contains(command, word) {
			return true
		}
	}
	return false
}

// live makes a connection, uses it, and closes everything.
func (x *Life) live(ctx context.Context, k *cmtest.Kernel) (dialed, served error) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), Limit)
	defer cancel()
	ln, err := x.Listen(cm.ListenConfig{Host: k.Host(), KeepAlive: crossingKeepAlive})
	if err != nil {
		return err, nil
	}
	done := make(chan error, 1)
	go func() {
		c, err := ln.Accept(ctx)
		if err == nil {
			err = x.Serve(limited, c)
		} else {
			ln.Close() // closes a connection that Accept has not returned
		}
		done <- err
	}()
	c, err := x.Dial(ctx, cm.Dialer{Host: k.Host(), KeepAlive: crossingKeepAlive}, ln.Addr().String())
	if err == nil {
		err = x.Use(ctx, c)
	}
	if err != nil {
		ln.Close() // ends Accept
	}
	served = <-done
	ln.Close()
	return err, served
}

// ask sends a byte, reads the answer, and closes the connection.
func ask(_ context.Context, closer io.Closer) error {
	c := closer.(net.Conn)
	defer c.Close()
	c.SetDeadline(time.Now().Add(Limit))
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	_, err := c.Read(make([]byte, 1))
	return err
}

// answer reads a byte and sends it back. It closes the connection after the end of the stream.
func answer(_ context.Context, closer io.Closer) error {
	c := closer.(net.Conn)
	defer c.Close()
	c.SetDeadline(time.Now().Add(Limit))
	b := make([]byte, 1)
	if _, err := c.Read(b); err != nil {
		return err
	}
	if _, err := c.Write(b); err != nil {
		return err
	}
	if _, err := c.Read(b); err != io.EOF {
		return err
	}
	return nil
}
