// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cmtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// machines holds a constructor of a fake kernel with two devices for each driver.
var machines = map[string]func() uverbs.Kernel{
	"rxe":   func() uverbs.Kernel { return uverbstest.New("rxe0", "rxe1") },
	"siw":   func() uverbs.Kernel { return uverbstest.NewSIW("siw0", "siw1") },
	"erdma": func() uverbs.Kernel { return uverbstest.NewERDMA("erdma_0", "erdma_1") },
	"mlx5":  func() uverbs.Kernel { return inprocess.New(inprocess.Config{}, "mlx5_0", "mlx5_1") },
}

// Drivers of machines.
var (
	drivers = []string{"rxe", "siw", "erdma", "mlx5"}
	roce    = []string{"rxe", "mlx5"}
)

// onMachines runs a test on the machine of each of the drivers, and checks that the test leaves no
// open object.
func onMachines(t *testing.T, drivers []string, test func(t *testing.T, k *cmtest.Kernel)) {
	for _, name := range drivers {
		t.Run(name, func(t *testing.T) {
			k := cmtest.New(machines[name]())
			test(t, k)
			if left := k.Left(); len(left) > 0 {
				t.Errorf("Left() = %q, want nothing", left)
			}
		})
	}
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// serve accepts one connection and echoes its messages until the peer disconnects.
func serve(ctx context.Context, ln *cm.Listener, param *cm.ConnParam) error {
	req, err := ln.Accept(ctx)
	if err != nil {
		return err
	}
	return echo(ctx, req, param)
}

// echo accepts a request and echoes messages until the peer disconnects.
func echo(ctx context.Context, req *cm.Request, param *cm.ConnParam) error {
	defer req.Close()
	pd, err := req.PD()
	if err != nil {
		return err
	}
	const size = 4096
	buf, err := pd.Alloc(2*size, verbs.LocalWrite) // for a message and its echo
	if err != nil {
		return err
	}
	defer closeFully(buf)
	if err := req.PostRecv(1, buf.Slice(0, size)); err != nil {
		return err
	}
	conn, err := req.Accept(ctx, nil, param)
	if err != nil {
		return err
	}
	defer closeFully(conn)
	for at, next := 0, size; ; at, next = next, at {
		wc, err := conn.WaitRecv(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		// The peer sends its next message when it has the echo. On iWARP a message without a receive ends the connection.
		if err := conn.PostRecv(1, buf.Slice(next, size)); err != nil {
			return err
		}
		if err := conn.Send(ctx, buf.Slice(at, int(wc.ByteLen))); err != nil {
			return err
		}
	}
}

// closeFully closes an object. A second Close retries after the kernel has refused to destroy
// the object.
func closeFully(c io.Closer) {
	if c.Close() != nil {
		c.Close()
	}
}

// call sends a message and returns the echo.
func call(ctx context.Context, conn *cm.Conn, text string) (string, error) {
	buf, err := conn.PD().Alloc(8192, verbs.LocalWrite)
	if err != nil {
		return "", err
	}
	defer closeFully(buf)
	if err := conn.PostRecv(1, buf.Slice(4096, 4096)); err != nil {
		return "", err
	}
	if err := conn.Send(ctx, buf.Slice(0, copy(buf.Bytes(), text))); err != nil {
		return "", err
	}
	wc, err := conn.WaitRecv(ctx)
	if err != nil {
		return "", err
	}
	return string(buf.Bytes()[4096:][:wc.ByteLen]), nil
}

// param returns parameters with private data and the default of everything else.
func param(data string) *cm.ConnParam {
	return &cm.ConnParam{PrivateData: []byte(data)}
}

// TestEcho connects two hosts and echoes messages. On RoCE the private data fills the message of the
// connection manager.
func TestEcho(t *testing.T) {
	onMachines(t, roce, func(t *testing.T, k *cmtest.Kernel) { testEcho(t, k, 196) })
	onMachines(t, []string{"siw", "erdma"}, func(t *testing.T, k *cmtest.Kernel) { testEcho(t, k, 3) })
}

// testEcho expects dataLen bytes of private data in the answer.
func testEcho(t *testing.T, k *cmtest.Kernel, dataLen int) {
	ctx := deadline(t)
	ln, err := (&cm.ListenConfig{Host: k.Host()}).Listen(ctx, "tcp", "10.0.0.1:7471")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer ln.Close()
	served := make(chan error, 1)
	go func() { served <- serve(ctx, ln, param("yes")) }()
	d := cm.Dialer{Host: k.Host(), Param: param("please")}
	conn, err := d.Dial(ctx, "tcp", "10.0.0.1:7471")
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer conn.Close()
	if got, want := conn.LocalAddr().Addr(), netip.MustParseAddr("10.0.0.2"); got != want {
		t.Errorf("LocalAddr().Addr() = %v, want %v", got, want)
	}
	want := append([]byte("yes"), make([]byte, dataLen-3)...)
	if got := conn.PeerParam().PrivateData; !slices.Equal(got, want) {
		t.Errorf("PeerParam().PrivateData = %q, want %q", got, want)
	}
	for i := range 10 {
		text := fmt.Sprintf("message %d", i)
		if got, err := call(ctx, conn, text); got != text || err != nil {
			t.Fatalf("call(%q) = %q, %v, want the same text", text, got, err)
		}
	}
	conn.Close()
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
	ln.Close()
}
