// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
)

// twoCards is a machine with two devices. The driver of the second device may be one without a
// provider in this module.
type twoCards struct {
	*uverbstest.Kernel
	foreign bool
}

func (k twoCards) Devices() ([]uverbs.DeviceInfo, error) {
	all, err := k.Kernel.Devices()
	if k.foreign {
		all[1].DriverID = abi.RDMA_DRIVER_BNXT_RE
	}
	return all, err
}

// listenOn returns a listener with a configuration, whose host may be on a fake kernel.
func listenOn(t *testing.T, config cm.ListenConfig, address string) *cm.Listener {
	t.Helper()
	ln, err := config.Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// syncBuffer is a bytes.Buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestRequestByAnUnusableDevice checks a request on a device that this process cannot open.
// The peer chooses the device. Its request is rejected, and the server keeps working.
func TestRequestByAnUnusableDevice(t *testing.T) {
	for name, foreign := range map[string]bool{"driver without a provider": true, "no permission": false} {
		t.Run(name, func(t *testing.T) {
			k := cmtest.New(twoCards{uverbstest.New("rxe0", "other1"), foreign})
			if !foreign {
				k.OnCommand(func(c cmtest.Command) error {
					if c.Device == "other1" && c.Name == "open" {
						return &fs.PathError{Op: "open", Path: "/dev/infiniband/uverbs1", Err: syscall.EACCES}
					}
					return nil
				})
			}
			host := k.Host()
			var log syncBuffer
			host.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			ln := listenOn(t, cm.ListenConfig{Host: host}, ":7")
			go echo(ln)
			from10001 := &cm.Dialer{Host: k.Host(), LocalAddr: mustParse("10.0.0.1:0")}
			for range 3 {
				_, err := from10001.Dial(within(t, 10*time.Second), "tcp", "10.0.0.2:7")
				if rej := new(cm.RejectError); !errors.As(err, &rej) || !strings.Contains(err.Error(), `"the device cannot be used"`) {
					t.Errorf("Dial on the unusable device = %v, want a rejection with the reason", err)
				}
				served(t, from10001, mustParse("10.0.0.1:7"))
			}
			if got := ln.Refused(); got != 3 {
				t.Errorf("Refused() = %d, want 3", got)
			}
			if out := log.String(); !strings.Contains(out, "connect request refused") || !strings.Contains(out, "remote=10.0.0.1:") || !strings.Contains(out, "other1") {
				t.Errorf("log = %q, want the refused request with its device", out)
			}
			ln.Close()
			nothingLeft(t, k)
		})
	}
}

// nothingLeft checks that programs have closed everything. It waits for objects that are
// closed in the background.
func nothingLeft(t *testing.T, k *cmtest.Kernel) {
	t.Helper()
	var left []string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if left = k.Left(); len(left) == 0 {
			return
		}
	}
	t.Errorf("Left() = %q, want nothing", left)
}

// TestAcceptOutOfDescriptors checks that the error of Accept is temporary if the channel or
// the device cannot be opened, and that later calls succeed.
func TestAcceptOutOfDescriptors(t *testing.T) {
	for _, device := range []string{"rdma_cm", "rxe0"} {
		for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS} {
			k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
			var full atomic.Bool
			ln := listenOn(t, cm.ListenConfig{Host: k.Host()}, ":7")
			d := &cm.Dialer{Host: k.Host(), LocalAddr: mustParse("10.0.0.2:0")}
			r, err := d.Resolve(within(t, 10*time.Second), "tcp", "10.0.0.1:7") // has opened its descriptors
			if err != nil {
				t.Fatalf("Resolve: %v", err)
			}
			if _, err := r.QP(); err != nil {
				t.Fatalf("QP: %v", err)
			}
			full.Store(true)
			k.OnCommand(func(c cmtest.Command) error {
				if full.Load() && c.Device == device && c.Name == "open" {
					return &fs.PathError{Op: "open", Path: "/dev/infiniband/" + device, Err: errno}
				}
				return nil
			})
			dialed := make(chan error, 1)
			go func() { _, err := r.Connect(within(t, 10*time.Second), nil, nil); dialed <- err }()
			_, err = ln.Accept(within(t, 10*time.Second))
			var oe *cm.OpError
			if !errors.As(err, &oe) || !oe.Temporary() || oe.Timeout() || !errors.Is(err, errno) || oe.Op != "accept" {
				t.Errorf("Accept() when %s could not be opened (%v) = %v, want a temporary error", device, errno, err)
			}
			if err := <-dialed; !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("Connect() = %v, want a rejection", err)
			}
			full.Store(false)
			go echo(ln)
			served(t, d, mustParse("10.0.0.1:7"))
			ln.Close()
			nothingLeft(t, k)
		}
	}
}

// TestRequestThatCannotMove has the kernel refuse to move a request to a channel of its own. The request is refused and
// counted, or Accept returns a temporary error.
func TestRequestThatCannotMove(t *testing.T) {
	for errno, temporary := range map[syscall.Errno]bool{syscall.EIO: false, syscall.ENOMEM: true} {
		k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
		var fails atomic.Bool
		fails.Store(true)
		k.OnCommand(func(c cmtest.Command) error {
			if c.Name == "MIGRATE_ID" && fails.Swap(false) {
				return errno
			}
			return nil
		})
		ln := listenOn(t, cm.ListenConfig{Host: k.Host()}, ":7")
		d := &cm.Dialer{Host: k.Host(), LocalAddr: mustParse("10.0.0.2:0")}
		dialed := make(chan error, 1)
		go func() { _, err := d.Dial(within(t, 10*time.Second), "tcp", "10.0.0.1:7"); dialed <- err }()
		if temporary {
			_, err := ln.Accept(within(t, 10*time.Second))
			if oe, ok := errors.AsType[*cm.OpError](err); !ok || !oe.Temporary() || !errors.Is(err, errno) {
				t.Errorf("Accept() = %v, want a temporary %v", err, errno)
			}
		}
		go echo(ln)
		if err := <-dialed; !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("Dial() = %v, want a rejection", err)
		}
		if got := ln.Refused() == 1; got == temporary {
			t.Errorf("Refused() after %v = %d", errno, ln.Refused())
		}
		served(t, d, mustParse("10.0.0.1:7"))
		ln.Close()
		nothingLeft(t, k)
	}
}

// linkLocal is a kernel whose devices also have link-local addresses. The device with 10.0.0.1 has
// fe80::1.
type linkLocal struct{ *uverbstest.Kernel }

func linkLocalOf(index int) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 15: byte(index)})
}

func (k linkLocal) Interfaces() ([]uverbs.Interface, error) {
	ifs, err := k.Kernel.Interfaces()
	for i := range ifs {
		ifs[i].Addrs = append(ifs[i].Addrs, linkLocalOf(ifs[i].Index))
	}
	return ifs, err
}

func (k linkLocal) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	f, err := k.Kernel.Open(info)
	return &linkLocalDevice{f, info.Index + 1}, err
}

// linkLocalDevice adds the GID of the link-local address to the table of a device.
type linkLocalDevice struct {
	uverbs.Transport
	ifindex int
}

func (f *linkLocalDevice) Ioctl(req *uverbs.Request) error {
	err := f.Transport.Ioctl(req)
	if err != nil || req.Object != abi.UVERBS_OBJECT_DEVICE || req.Method != abi.UVERBS_METHOD_QUERY_GID_TABLE {
		return err
	}
	n := abi.View[uint64](req.Find(abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES).Buf)
	entry := abi.UverbsGIDEntry{PortNum: 1, GIDIndex: uint32(*n), GIDType: abi.IB_UVERBS_GID_TYPE_ROCE_V2, GID: linkLocalOf(f.ifindex).As16(), NetdevIfindex: uint32(f.ifindex)}
	copy(req.Find(abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES).Buf[int(*n)*abi.Size[abi.UverbsGIDEntry]():], abi.Bytes(&entry))
	*n++
	return nil
}

// TestListenerKeepsDevices checks that refused requests do not open the device repeatedly. The
// listener releases the device at Close, and at the device's removal even if no goroutine
// calls Accept.
func TestListenerKeepsDevices(t *testing.T) {
	for _, row := range []struct{ listen, dial, from string }{
		{":7", "10.0.0.1:7", "10.0.0.2:0"},
		{"10.0.0.1:7", "10.0.0.1:7", "10.0.0.2:0"},
		{":7", "[fe80::1%1]:7", "[fe80::2%2]:0"},
		{"[fe80::1%1]:7", "[fe80::1%1]:7", "[fe80::2%2]:0"},
	} {
		for _, removed := range []bool{true, false} {
			k := cmtest.New(linkLocal{uverbstest.New("rxe0", "rxe1")})
			var opens atomic.Int32
			k.OnCommand(func(c cmtest.Command) error {
				if c.Device == "rxe0" && c.Name == "open" {
					opens.Add(1)
				}
				return nil
			})
			ln := listenOn(t, cm.ListenConfig{Host: k.Host()}, row.listen)
			d := &cm.Dialer{Host: k.Host(), LocalAddr: mustParse(row.from)}
			for range 20 {
				go func() {
					if req, err := ln.Accept(within(t, 10*time.Second)); err == nil {
						req.Reject(nil)
					}
				}()
				if _, err := d.Dial(within(t, 10*time.Second), "tcp", row.dial); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Fatalf("Dial(%s) = %v, want ECONNREFUSED", row.dial, err)
				}
			}
			if got := opens.Load(); got != 1 {
				t.Errorf("listener on %s: %d opens of the device for 20 refused requests to %s, want 1", row.listen, got, row.dial)
			}
			if removed {
				k.Remove("rxe0")
				wantLeft(t, k, "device rxe0", false)
				ln.Close()
			} else {
				wantLeft(t, k, "device rxe0", true)
				ln.Close()
			}
			nothingLeft(t, k)
		}
	}
}

// wantLeft waits until the list of open objects contains an object, or does not contain it.
func wantLeft(t *testing.T, k *cmtest.Kernel, what string, want bool) {
	t.Helper()
	var left []string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if left = k.Left(); strings.Contains(strings.Join(left, "; "), what) == want {
			return
		}
	}
	t.Errorf("Left() = %q, want %q in it: %v", left, what, want)
}

// TestHandshakeTimeout checks that a request without an answer of the program is refused with
// a reason, and that Accept stops waiting for a peer that does not confirm.
func TestHandshakeTimeout(t *testing.T) {
	k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
	ln := listenOn(t, cm.ListenConfig{Host: k.Host(), HandshakeTimeout: 50 * time.Millisecond, MaxPending: 1}, ":7")
	d := &cm.Dialer{Host: k.Host(), LocalAddr: mustParse("10.0.0.2:0")}
	dial := func() chan error {
		dialed := make(chan error, 1)
		go func() {
			conn, err := d.Dial(within(t, 10*time.Second), "tcp", "10.0.0.1:7")
			if err == nil {
				t.Cleanup(func() { conn.Close() })
			}
			dialed <- err
		}()
		return dialed
	}
	request := func() *cm.Request {
		t.Helper()
		req, err := ln.Accept(within(t, 10*time.Second))
		if err != nil {
			t.Fatalf("Accept: %v", err)
		}
		return req
	}
	wantTimeout := func(what string, err error) {
		t.Helper()
		ne, ok := err.(net.Error)
		if !ok || !ne.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "HandshakeTimeout") {
			t.Errorf("%s = %v, want a timeout that names HandshakeTimeout", what, err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s = %v, want no error of a context", what, err)
		}
	}

	dialed := dial()
	req := request()
	if err := <-dialed; !errors.Is(err, syscall.ECONNREFUSED) || cm.RefusalOf(err) != cm.RefusedHandshakeTimeout {
		t.Errorf("Dial without an answer = %v, want a rejection with the reason", err)
	}
	<-req.Done()
	_, err := req.Accept(within(t, 10*time.Second), nil, nil)
	wantTimeout("Accept of a late request", err)
	wantTimeout("Reject of a late request", req.Reject(nil))
	req.Close()

	// The answer arrives, but not the confirmation.
	k.OnMessage(func(m cmtest.Message) (cmtest.Fate, time.Duration) {
		if m.Type == cmtest.RTU {
			return cmtest.Lost, 0
		}
		return cmtest.Arrives, 0
	})
	dialed = dial()
	_, err = request().Accept(within(t, 10*time.Second), nil, nil)
	wantTimeout("Accept without a confirmation", err)
	<-dialed
	k.OnMessage(nil)

	// Both handshakes have ended, and an answered request has no deadline any more.
	dialed = dial()
	conn, err := request().Accept(within(t, 10*time.Second), nil, nil)
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	if err := <-dialed; err != nil {
		t.Errorf("Dial: %v", err)
	}
	conn.Close()
	if got, want := ln.Stats(), (cm.AcceptStats{Established: 1, Expired: 1, Failed: 1}); got != want {
		t.Errorf("Listener.Stats = %+v, want %+v", got, want)
	}
}

// TestRefusedDatagramRequest checks that limits also apply to datagram services, and that the
// refusal has the reason.
func TestRefusedDatagramRequest(t *testing.T) {
	k := cmtest.New(inprocess.New(inprocess.Config{}, "mlx5_0", "mlx5_1")) // the other fake kernel has no datagrams
	ln, err := (&cm.ListenConfig{Host: k.Host(), MaxConns: 1}).Listen(t.Context(), "udp", ":7")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer ln.Close()
	lookUp := func() error {
		d := &cm.Dialer{Host: k.Host(), LocalAddr: mustParse("10.0.0.2:0")}
		r, err := d.Resolve(within(t, 10*time.Second), "udp", "10.0.0.1:7")
		if err != nil {
			t.Fatalf("Resolve: %v", err)
		}
		defer r.Close()
		_, err = r.Lookup(within(t, 10*time.Second), nil)
		return err
	}
	answered := make(chan *cm.Request, 2)
	go func() {
		for {
			req, err := ln.Accept(t.Context())
			if err != nil {
				return
			}
			req.Answer(nil, nil)
			answered <- req
		}
	}()
	if err := lookUp(); err != nil {
		t.Fatalf("lookUp: %v", err)
	}
	if err := lookUp(); cm.RefusalOf(err) != cm.RefusedMaxConns {
		t.Errorf("Lookup over the limit = %v, want a refusal with the reason", err)
	}
	(<-answered).Close()
	if err := lookUp(); err != nil {
		t.Errorf("Lookup after the first request was closed = %v, want success", err)
	}
	(<-answered).Close()
}
