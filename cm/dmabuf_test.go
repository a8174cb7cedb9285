// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/test/connectx/inprocess"
	"purerdma/verbs"
)

// dialed connects d to a listener and returns both ends.
func dialed(t *testing.T, ln *cm.Listener, d *cm.Dialer) (client, server *cm.Conn) {
	t.Helper()
	ctx := within(t, 10*time.Second)
	accepted := acceptOne(ctx, t, ln, nil)
	client, err := d.Dial(ctx, "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { client.Close() })
	server = accepted()
	t.Cleanup(func() { server.Close() })
	return client, server
}

// TestConnDMABufAfterDial registers a dma-buf on the PD of an established connection. The
// kernel refuses it, unless the QP's options exclude data in completions.
func TestConnDMABufAfterDial(t *testing.T) {
	for _, no := range []bool{false, true} {
		k := cmtest.New(inprocess.New(inprocess.Config{}, "mlx5_0", "mlx5_1"))
		cfg := verbs.QPConfig{NoScatterToCQE: no}
		ln := listenOn(t, cm.ListenConfig{Host: k.Host(), QP: cfg}, "10.0.0.1:7")
		client, server := dialed(t, ln, &cm.Dialer{Host: k.Host(), LocalAddr: mustParse("10.0.0.2:0"), QP: cfg})
		for name, conn := range map[string]*cm.Conn{"Dialer": client, "ListenConfig": server} {
			want := error(syscall.EBUSY)
			if no {
				want = errors.ErrUnsupported // the fake kernel refuses the registration itself
			}
			if mr, err := conn.PD().RegDMABuf(0, 0, 4096, 0, verbs.LocalWrite); !errors.Is(err, want) {
				t.Errorf("%s.QP.NoScatterToCQE = %v: RegDMABuf = %v, %v, want %v", name, no, mr, err, want)
			}
		}
	}
}
