// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/uverbs/uverbstest"
)

// TestFailedAttemptReturnsWhatCloseFailed fails a command that destroys an object during the close of
// a refused Connect and of a Reject. The error has both causes, and Close tries again.
func TestFailedAttemptReturnsWhatCloseFailed(t *testing.T) {
	for _, side := range []string{"Connect", "Reject"} {
		for _, command := range []string{"QP_DESTROY", "CQ_DESTROY", "PD_DESTROY", "DESTROY_ID"} {
			t.Run(side+" "+command, func(t *testing.T) {
				k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
				var armed atomic.Bool
				k.OnCommand(func(c cmtest.Command) error {
					if strings.HasSuffix(c.Name, command) && armed.CompareAndSwap(true, false) {
						return syscall.ENOMEM
					}
					return nil
				})
				ln := listenOn(t, cm.ListenConfig{Host: k.Host()}, "10.0.0.1:7")
				d := cm.Dialer{Host: k.Host(), LocalAddr: mustParse("10.0.0.2:0")}
				r, err := d.Resolve(within(t, 10*time.Second), "tcp", "10.0.0.1:7")
				if err != nil {
					t.Fatalf("Resolve: %v", err)
				}
				ctx, cancel := context.WithCancel(within(t, 10*time.Second))
				defer cancel()
				connected := make(chan error, 1)
				go func() {
					_, err := r.Connect(ctx, nil, nil)
					connected <- err
				}()
				req, err := ln.Accept(within(t, 10*time.Second))
				if err != nil {
					t.Fatalf("Accept: %v", err)
				}
				if side == "Connect" {
					armed.Store(true)
					if err := req.ID().Reject(nil); err != nil {
						t.Errorf("ID.Reject() = %v", err)
					}
					if err := <-connected; !errors.Is(err, syscall.ECONNREFUSED) || !errors.Is(err, syscall.ENOMEM) {
						t.Errorf("Connect() = %v, want %v and %v", err, syscall.ECONNREFUSED, syscall.ENOMEM)
					} else if _, ok := err.(*cm.OpError); !ok {
						t.Errorf("Connect() = %T, want *cm.OpError", err)
					}
				} else {
					if _, err := req.QP(); err != nil {
						t.Fatalf("QP: %v", err)
					}
					cancel()
					<-connected // the dialing side has destroyed its objects
					armed.Store(true)
					if err := req.Reject(nil); !errors.Is(err, syscall.ENOMEM) {
						t.Errorf("Reject() = %v, want %v", err, syscall.ENOMEM)
					}
				}
				if err := errors.Join(r.Close(), req.Close(), ln.Close()); err != nil {
					t.Errorf("Close() = %v, want nil", err)
				}
				nothingLeft(t, k)
			})
		}
	}
}
