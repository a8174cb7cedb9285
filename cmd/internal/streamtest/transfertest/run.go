// SPDX-License-Identifier: Apache-2.0

//go:build linux

package transfertest

import (
	"sync"
	"testing"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/cmd/internal/streamtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/rsocket"
)

// Run runs both sides of a program's tests, one after the other on one connection, on devices of each kind.
// Both sides verify the data.
func Run(t *testing.T, opts rsocket.Options, transfer func(*streamtest.Session, streamtest.Test) error, tests ...streamtest.Test) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		var server sync.WaitGroup
		defer server.Wait() // after ln.Close
		ln, err := (&rsocket.ListenConfig{Options: opts, CM: cm.ListenConfig{Host: k.Host()}}).Listen(t.Context(), "tcp", "10.0.0.1:7471")
		if err != nil {
			t.Fatalf("Listen: %v", err)
		}
		defer ln.Close()
		server.Go(func() {
			conn, err := ln.Accept()
			if err != nil {
				t.Errorf("Accept: %v", err)
				return
			}
			defer conn.Close()
			s := streamtest.NewSession(conn, false, true, 1<<20)
			for _, test := range tests {
				if err := transfer(s, test); err != nil {
					t.Errorf("transfer(server, %+v) = %v", test, err)
					return
				}
			}
		})
		d := rsocket.Dialer{Options: opts, CM: cm.Dialer{Host: k.Host()}}
		conn, err := d.DialContext(t.Context(), "tcp", "10.0.0.1:7471")
		if err != nil {
			t.Fatalf("DialContext: %v", err)
		}
		defer conn.Close()
		s := streamtest.NewSession(conn, true, true, 1<<20)
		for _, test := range tests {
			if err := transfer(s, test); err != nil {
				t.Fatalf("transfer(client, %+v) = %v", test, err)
			}
		}
	})
}
