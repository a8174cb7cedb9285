// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// connWith connects with a ConnParam. The accepting side posts receives of the given sizes.
func connWith(t *testing.T, param *cm.ConnParam, receives ...int) (client, server *cm.Conn) {
	t.Helper()
	ln, d := ends(t)
	accepted := acceptOne(within(t, 10*time.Second), t, ln, func(req *cm.Request) (*cm.ConnParam, error) {
		pd, err := req.PD()
		if err != nil {
			return nil, err
		}
		for i, n := range receives {
			if err := req.PostRecv(uint64(i), alloc(t, pd, n).SGE()); err != nil {
				return nil, err
			}
		}
		return param, nil
	})
	r, err := d.Resolve(within(t, 10*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	t.Cleanup(func() { r.Close() })
	if client, err = r.Connect(within(t, 10*time.Second), nil, param); err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() { client.Close() })
	if vmtest.IWARP() { // the accepting side waits for the first message
		if err := client.Probe(within(t, 10*time.Second)); err != nil {
			t.Fatalf("client.Probe: %v", err)
		}
	}
	server = accepted()
	t.Cleanup(func() { server.Close() })
	return client, server
}

// quickly returns parameters with which a sender soon fails if the peer is not ready.
func quickly() *cm.ConnParam {
	return &cm.ConnParam{RetryCount: 1, RNRRetryCount: 1, InitiatorDepth: 1, ResponderResources: 1}
}

// useless checks that Done is closed and that Err returns a reason.
func useless(t *testing.T, c *cm.Conn) {
	t.Helper()
	select {
	case <-c.Done():
		if c.Err() == nil {
			t.Error("Err() = nil after Done is closed, want a reason")
		}
	case <-time.After(10 * time.Second):
		t.Error("Done is not closed after 10 seconds")
	}
}

// TestFailuresHaveHints checks the hints for typical mistakes of beginners, with the errors
// that devices report. On iWARP the connection ends instead.
func TestFailuresHaveHints(t *testing.T) {
	vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	for _, tc := range []struct {
		name           string
		receives       []int
		do             func(c *cm.Conn, buf *verbs.MR) error
		client, server string // hints, "" if that side has no failure
	}{
		{"no receive", nil, func(c *cm.Conn, buf *verbs.MR) error { return c.Send(within(t, 60*time.Second), buf.Slice(0, 64)) },
			"no receive posted", ""},
		{"too long", []int{64}, func(c *cm.Conn, buf *verbs.MR) error { return c.Send(within(t, 60*time.Second), buf.Slice(0, 65)) },
			"the message is longer than the peer's receive", "the message is longer than the receive"},
		{"wrong key", []int{64}, func(c *cm.Conn, buf *verbs.MR) error {
			return c.Write(within(t, 60*time.Second), buf.Slice(0, 64), wrongKey)
		}, "the key is stale", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client, server := connWith(t, quickly(), tc.receives...)
			err := tc.do(client, alloc(t, client.PD(), 4096))
			t.Logf("client: %v", err)
			if vmtest.IWARP() {
				// siw has already sent the message, or waits.
				if tc.name != "no receive" {
					_, err := server.WaitRecv(within(t, 10*time.Second))
					t.Logf("server: %v", err)
					useless(t, client)
				}
				return
			}
			var wc *verbs.WCError
			if !errors.As(err, &wc) || !strings.Contains(err.Error(), tc.client) {
				t.Errorf("error = %v, want a WCError with %q", err, tc.client)
			}
			useless(t, client)
			if len(tc.receives) > 0 {
				_, err = server.WaitRecv(within(t, 10*time.Second))
				t.Logf("server: %v", err)
				if err == nil || !strings.Contains(err.Error(), tc.server) {
					t.Errorf("WaitRecv() = %v, want an error with %q", err, tc.server)
				}
				useless(t, server)
			}
		})
	}
}

// TestNoDepth checks that a connection without READs refuses them, and that other requests
// succeed.
func TestNoDepth(t *testing.T) {
	vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	client, server := connWith(t, &cm.ConnParam{ResponderResources: cm.None, InitiatorDepth: cm.None}, 64)
	buf := alloc(t, client.PD(), 64)
	if err := client.Read(within(t, 20*time.Second), buf.SGE(), wrongKey); !errors.Is(err, verbs.ErrNoReads) {
		t.Errorf("Read() = %v, want %v", err, verbs.ErrNoReads)
	}
	if err := client.Send(within(t, 20*time.Second), buf.Slice(0, 8)); err != nil {
		t.Errorf("Send() afterwards = %v, want nil", err)
	}
	if _, err := server.WaitRecv(within(t, 20*time.Second)); err != nil {
		t.Errorf("WaitRecv() = %v, want nil", err)
	}
}

// TestExplainNamesTheDisconnect explains a flush that the program itself has polled.
func TestExplainNamesTheDisconnect(t *testing.T) {
	vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	client, server := connWith(t, nil, 64)
	explained := make(chan error, 1)
	go func() {
		var wcs [1]verbs.WC
		if _, err := server.QP().RecvCQ().Wait(within(t, 20*time.Second), wcs[:]); err != nil {
			explained <- err
			return
		}
		explained <- server.Explain(wcs[0].Err())
	}()
	if _, err := client.Disconnect(within(t, 20*time.Second)); err != nil {
		t.Fatalf("client.Disconnect: %v", err)
	}
	var gone *cm.DisconnectedError
	if err := <-explained; !errors.As(err, &gone) || gone.Local {
		t.Errorf("Explain() = %v, want the peer's disconnect", err)
	}
	useless(t, server)
}
