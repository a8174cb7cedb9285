// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"testing"

	"purerdma/cm"
)

// acceptOne accepts the next connection of a listener in the background. prepare gets its request before,
// and returns the parameters of the acceptance. It may be nil. The returned function waits for the
// connection, which the caller closes.
func acceptOne(ctx context.Context, t *testing.T, ln *cm.Listener, prepare func(*cm.Request) (*cm.ConnParam, error)) (wait func() *cm.Conn) {
	t.Helper()
	var conn *cm.Conn
	accepted := make(chan error, 1)
	go func() {
		accepted <- func() error {
			req, err := ln.Accept(ctx)
			if err != nil {
				return err
			}
			defer req.Close()
			var param *cm.ConnParam
			if prepare != nil {
				if param, err = prepare(req); err != nil {
					return err
				}
			}
			conn, err = req.Accept(ctx, nil, param)
			return err
		}()
	}()
	return func() *cm.Conn {
		t.Helper()
		if err := <-accepted; err != nil {
			t.Fatalf("accepting a connection = %v", err)
		}
		return conn
	}
}
