// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// wantError checks that an error is an OpError of the operation, is the cause,
// and names them.
func wantError(t *testing.T, err error, op string, cause error, words ...string) {
	t.Helper()
	var oe *cm.OpError
	if !errors.As(err, &oe) || oe.Op != op {
		t.Fatalf("got %v (%T), want an OpError of %q", err, err, op)
	}
	if cause != nil && !errors.Is(err, cause) {
		t.Fatalf("%v is not %v", err, cause)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestNoRoute(t *testing.T) {
	vmtest.Need(t, 2)
	vmtest.NoLeaks(t)
	_, err := cm.Dial(within(t, 10*time.Second), "tcp", "203.0.113.1:7471")
	wantError(t, err, "resolve", syscall.ENETUNREACH, "203.0.113.1:7471")
}

func TestNobodyHasTheAddress(t *testing.T) {
	hosts := vmtest.Need(t, 2)
	vmtest.NoLeaks(t)
	// On the wire's subnet, owned by nobody: the neighbour does not resolve.
	ip := strings.Split(hosts[1].IPv4, ".")
	dst := strings.Join(append(ip[:3:3], "77"), ".") + ":7471"
	d := dialerOf(t, hosts[1].IPv4)
	d.ResolveTimeout = 300 * time.Millisecond
	start := time.Now()
	_, err := d.Dial(within(t, 10*time.Second), "tcp", dst)
	wantError(t, err, "resolve", syscall.ETIMEDOUT, dst)
	var ue *cm.UnreachableError
	if !errors.As(err, &ue) || ue.Event != cm.EventAddrError {
		t.Errorf("got %#v", err)
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestNobodyListens(t *testing.T) {
	ln, d := ends(t)
	addr := ln.Addr().String()
	ln.Close()
	_, err := d.Dial(within(t, 10*time.Second), "tcp", addr)
	wantError(t, err, "connect", syscall.ECONNREFUSED, addr, "nobody listens")
	var rej *cm.RejectError
	if !errors.As(err, &rej) || rej.Reason != cm.RejectInvalidServiceID || rej.Transport != verbs.TransportIB {
		t.Errorf("got %#v", rej)
	}
}

func TestPeerRejects(t *testing.T) {
	ln, d := ends(t)
	go func() {
		for {
			req, err := ln.Accept(context.Background())
			if err != nil {
				return
			}
			if err := req.Reject(make([]byte, 149)); err == nil {
				t.Error("149 bytes of private data were taken")
			}
			req.Reject([]byte("full up"))
		}
	}()
	for range 3 { // the listener goes on
		_, err := d.Dial(within(t, 10*time.Second), "tcp", ln.Addr().String())
		wantError(t, err, "connect", nil, "rejected by the application")
		var rej *cm.RejectError
		if !errors.As(err, &rej) || rej.Reason != cm.RejectConsumer || !strings.HasPrefix(string(rej.PrivateData), "full up\x00") {
			t.Errorf("got %#v", rej)
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			t.Error("an application's rejection is not a refused connection")
		}
	}
}

func TestPrivateDataTooLong(t *testing.T) {
	ln, d := ends(t)
	r, err := d.Resolve(within(t, 10*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = r.Connect(within(t, 10*time.Second), nil, &cm.ConnParam{PrivateData: make([]byte, 57)})
	var pe *cm.PrivateDataError
	wantError(t, err, "connect", nil, "57 bytes", "at most 56")
	if !errors.As(err, &pe) || pe.Max != 56 {
		t.Errorf("got %v", err)
	}

	// Accepting: the peer must not be refused behind our back by a parameter
	// that could have been checked; the ID can still accept.
	accepted := make(chan error, 1)
	go func() {
		req, err := ln.Accept(context.Background())
		if err != nil {
			accepted <- err
			return
		}
		defer req.Close()
		qp, err := req.QP()
		if err != nil {
			accepted <- err
			return
		}
		_ = qp
		if err := req.ID().Accept(&cm.ConnParam{PrivateData: make([]byte, 197)}); !errors.As(err, &pe) || pe.Max != 196 {
			accepted <- fmt.Errorf("197 bytes: %v", err)
			return
		}
		conn, err := req.Accept(context.Background(), nil, &cm.ConnParam{PrivateData: make([]byte, 196)})
		if err == nil {
			conn.Close()
		}
		accepted <- err
	}()
	conn, err := d.Dial(within(t, 10*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if err := <-accepted; err != nil {
		t.Error(err)
	}
}

func TestDepthsBeyondTheDevice(t *testing.T) {
	ln, d := ends(t)
	r, err := d.Resolve(within(t, 10*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if limit := r.Device().Attr().MaxQPRdAtom; limit >= 254 {
		t.Fatalf("the device can %d, this test needs a smaller one", limit)
	}
	_, err = r.Connect(within(t, 10*time.Second), nil, &cm.ConnParam{ResponderResources: 254})
	wantError(t, err, "connect", nil, "max_qp_rd_atom")
}

// TestPeerDies kills a serving process in the middle of a transfer. Its kernel
// says goodbye for it.
func TestPeerDies(t *testing.T) {
	hosts := vmtest.Need(t, 2)
	vmtest.NoLeaks(t)
	child, addr := spawn(t, "echo", hosts[0].IPv4+":0")
	conn, err := dialerOf(t, hosts[1].IPv4).Dial(within(t, 10*time.Second), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	buf, err := conn.PD().Alloc(8192, verbs.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Close()
	ctx := within(t, 20*time.Second)
	time.AfterFunc(100*time.Millisecond, func() { child.Process.Kill() })
	for rounds := 0; ; rounds++ {
		if err = conn.PostRecv(0, buf.Slice(4096, 4096)); err != nil {
			break
		}
		if err = conn.Send(ctx, buf.Slice(0, 4096)); err != nil {
			wantError(t, err, "send", nil, addr)
			break
		}
		if _, err = conn.WaitRecv(ctx); err != nil {
			if !errors.Is(err, io.EOF) {
				wantError(t, err, "receive", nil, addr)
			}
			break
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the death was not noticed: %v", err)
	}
	end, err := conn.Wait(within(t, 5*time.Second))
	if err != nil || end.Event != cm.EventDisconnected {
		t.Errorf("the connection ended with %v, %v", end, err)
	}
	if _, err := conn.WaitRecv(within(t, 5*time.Second)); !errors.Is(err, io.EOF) {
		t.Errorf("receiving after the end: %v", err)
	}
}

// TestDyingClientsDoNotDisturb kills clients of a listener that serves others.
func TestDyingClientsDoNotDisturb(t *testing.T) {
	hosts := vmtest.Need(t, 2)
	vmtest.NoLeaks(t)
	ln := listen(t, hosts[0].IPv4+":0")
	go echo(ln)
	d := dialerOf(t, hosts[1].IPv4)
	steady, err := d.Dial(within(t, 10*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer steady.Close()
	for range 3 {
		child, _ := spawn(t, "client", hosts[1].IPv4+" "+ln.Addr().String())
		child.Process.Kill()
		child.Wait()
		say(t, steady, "undisturbed")
	}
	served(t, d, ln.Addr())
}

// TestDeviceRemoved unplugs a device under a live connection: everybody on it is
// told, the deletion ends because the library lets go of the device, and a
// wildcard listener goes on with the other device.
func TestDeviceRemoved(t *testing.T) {
	hosts := vmtest.Need(t, 2)
	vmtest.NoLeaks(t)
	wild := listen(t, ":0")
	go echo(wild)
	bound := listen(t, hosts[0].IPv4+":0")
	boundErr := make(chan error, 1)
	go func() {
		_, err := bound.Accept(context.Background())
		boundErr <- err
	}()
	port := wild.Addr().Port()
	to := func(ip string) string { return net.JoinHostPort(ip, fmt.Sprint(port)) }

	// Client on the device that stays, server on the one that goes.
	conn, err := dialerOf(t, hosts[1].IPv4).Dial(within(t, 10*time.Second), "tcp", to(hosts[0].IPv4))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	say(t, conn, "before")
	// And a client on the device that goes.
	gone, err := dialerOf(t, hosts[0].IPv4).Dial(within(t, 10*time.Second), "tcp", to(hosts[1].IPv4))
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	mr, err := gone.PD().Alloc(4096, verbs.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer mr.Close()
	if err := gone.PostRecv(0, mr.SGE()); err != nil {
		t.Fatal(err)
	}
	received := make(chan error, 1)
	go func() {
		_, err := gone.WaitRecv(context.Background())
		received <- err
	}()

	deleted := make(chan error, 1)
	go func() { deleted <- netlink.RdmaLinkDel(hosts[0].Device) }()
	select {
	case err := <-deleted:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the deletion of the device does not end")
	}
	defer func() {
		if err := netlink.RdmaLinkAdd(hosts[0].Device, "rxe", hosts[0].Netdev); err != nil {
			t.Fatal(err)
		}
		vmtest.WaitForGID(t, hosts[0])
	}()

	var removed *verbs.DeviceRemovedError
	if err := recvWithin(t, received); !errors.As(err, &removed) || removed.Device != hosts[0].Device {
		t.Errorf("the waiting receive got %v", err)
	}
	if err := recvWithin(t, boundErr); !errors.As(err, &removed) {
		t.Errorf("the listener on the device got %v", err)
	}
	if end, err := gone.Wait(within(t, 5*time.Second)); err != nil || end.Event != cm.EventDeviceRemoval {
		t.Errorf("the connection on the device ended with %v, %v", end, err)
	}
	if end, err := conn.Wait(within(t, 5*time.Second)); err != nil || end.Event != cm.EventDisconnected {
		t.Errorf("the peer's connection ended with %v, %v", end, err)
	}
	if err := gone.Send(within(t, time.Second), mr.Slice(0, 1)); !errors.As(err, &removed) {
		t.Errorf("sending on the removed device: %v", err)
	}
	if _, err := gone.PD().Alloc(4096, verbs.LocalWrite); !errors.As(err, &removed) {
		t.Errorf("registering on the removed device: %v", err)
	}
	// The listener's other device.
	served(t, dialerOf(t, hosts[1].IPv4), mustParse(to(hosts[1].IPv4)))
}

func recvWithin(t *testing.T, ch <-chan error) error {
	t.Helper()
	select {
	case err := <-ch:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came back")
		return nil
	}
}

func mustParse(s string) cm.Addr {
	a, err := cm.ParseAddr(s)
	if err != nil {
		panic(err)
	}
	return a
}

// TestCancelled ends the context at each stage.
func TestCancelled(t *testing.T) {
	hosts := vmtest.Need(t, 2)
	d := dialerOf(t, hosts[1].IPv4)
	soon := func(t *testing.T) context.Context { return within(t, 200*time.Millisecond) }
	bounded := func(t *testing.T, fn func() error) {
		t.Helper()
		start := time.Now()
		err := fn()
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		var ne net.Error
		if !errors.As(err, &ne) || !ne.Timeout() {
			t.Errorf("%v is not a timeout", err)
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
	}
	t.Run("before it began", func(t *testing.T) {
		vmtest.NoLeaks(t)
		ln := listen(t, hosts[0].IPv4+":0")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := d.Dial(ctx, "tcp", ln.Addr().String()); !errors.Is(err, context.Canceled) {
			t.Errorf("Dial: %v", err)
		}
		if _, err := ln.Accept(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Accept: %v", err)
		}
	})
	t.Run("resolving", func(t *testing.T) {
		vmtest.NoLeaks(t)
		ip := strings.Split(hosts[1].IPv4, ".")
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(200*time.Millisecond, func() { cancel(errors.New("changed my mind")) })
		start := time.Now()
		_, err := d.Resolve(ctx, "tcp", strings.Join(append(ip[:3:3], "78"), ".")+":1")
		wantError(t, err, "resolve", nil, "changed my mind")
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
	t.Run("listening", func(t *testing.T) {
		vmtest.NoLeaks(t)
		ln := listen(t, hosts[0].IPv4+":0")
		bounded(t, func() error { _, err := ln.Accept(soon(t)); return err })
		go echo(ln)
		served(t, d, ln.Addr())
	})
	t.Run("connecting to a silent server", func(t *testing.T) {
		vmtest.NoLeaks(t)
		ln := listen(t, hosts[0].IPv4+":0")
		bounded(t, func() error { _, err := d.Dial(soon(t), "tcp", ln.Addr().String()); return err })
		// The request of the peer that gave up is still in the queue, or gone;
		// neither stops the listener.
		go echo(ln)
		served(t, d, ln.Addr())
	})
	t.Run("accepting a peer that does not confirm", func(t *testing.T) {
		vmtest.NoLeaks(t)
		ln := listen(t, hosts[0].IPv4+":0")
		ch, id := silentPeer(t, d.LocalAddr, ln.Addr())
		defer ch.Close()
		defer id.Close()
		req, err := ln.Accept(within(t, 5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		bounded(t, func() error { _, err := req.Accept(soon(t), nil, nil); return err })
		go echo(ln)
		served(t, d, ln.Addr())
	})
	t.Run("receiving and sending", func(t *testing.T) {
		vmtest.NoLeaks(t)
		ln := listen(t, hosts[0].IPv4+":0")
		accepted := make(chan *cm.Conn, 1)
		go func() {
			req, err := ln.Accept(context.Background())
			if err != nil {
				close(accepted)
				return
			}
			conn, _ := req.Accept(context.Background(), nil, nil)
			accepted <- conn
		}()
		conn, err := d.Dial(within(t, 5*time.Second), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if peer := <-accepted; peer != nil {
			defer peer.Close()
		}
		mr, err := conn.PD().Alloc(4096, verbs.LocalWrite)
		if err != nil {
			t.Fatal(err)
		}
		defer mr.Close()
		bounded(t, func() error { _, err := conn.WaitRecv(soon(t)); return err })
		bounded(t, func() error { _, err := conn.Wait(soon(t)); return err })
		// The peer has posted no receive: the message cannot go, and must not
		// be in flight any more when Send returns.
		bounded(t, func() error { return conn.Send(soon(t), mr.SGE()) })
		if conn.QP().State() != verbs.QPErr {
			t.Errorf("the QP still has the memory: it is in %v", conn.QP().State())
		}
	})
}

// silentPeer connects and never confirms: an ID without a QP gets the response
// and leaves it at that.
func silentPeer(t *testing.T, src, dst cm.Addr) (*cm.EventChannel, *cm.ID) {
	t.Helper()
	ch, err := cm.NewEventChannel()
	if err != nil {
		t.Fatal(err)
	}
	id, err := ch.NewID(cm.PortSpaceTCP)
	if err != nil {
		t.Fatal(err)
	}
	step := func(err error, want cm.EventType) {
		t.Helper()
		if err == nil {
			var ev *cm.Event
			if ev, err = ch.Next(within(t, 5*time.Second)); err == nil && ev.Type != want {
				err = ev.Err()
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	step(id.ResolveAddr(src, dst, time.Second), cm.EventAddrResolved)
	step(id.ResolveRoute(time.Second), cm.EventRouteResolved)
	if err := id.Connect(&cm.ConnParam{QPNum: 0x4711, RetryCount: 7, RNRRetryCount: 7}); err != nil {
		t.Fatal(err)
	}
	return ch, id
}

func TestBindFailures(t *testing.T) {
	hosts := vmtest.Need(t, 2)
	vmtest.NoLeaks(t)
	ln := listen(t, hosts[0].IPv4+":0")
	_, err := cm.Listen(context.Background(), "tcp", ln.Addr().String())
	wantError(t, err, "bind", syscall.EADDRINUSE, ln.Addr().String())
	_, err = cm.Listen(context.Background(), "tcp", "203.0.113.1:0")
	wantError(t, err, "bind", syscall.EADDRNOTAVAIL, "203.0.113.1")
}

// children are the programs that the tests start as processes of their own.
var children = map[string]func() int{
	"echo":   echoChild,
	"client": clientChild,
	"open":   openChild,
	"memory": memoryChild,
}

// spawn starts a child and returns the line that it says when it is ready.
func spawn(t *testing.T, name, arg string, setup ...func(*exec.Cmd)) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CM_TEST_CHILD="+name, "CM_TEST_ARG="+arg)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, fn := range setup {
		fn(cmd)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the child %s said nothing: %v", name, err)
	}
	return cmd, strings.TrimSpace(line)
}

func echoChild() int {
	ln, err := cm.Listen(context.Background(), "tcp", os.Getenv("CM_TEST_ARG"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(ln.Addr())
	echo(ln)
	return 0
}

func clientChild() int {
	from, to, _ := strings.Cut(os.Getenv("CM_TEST_ARG"), " ")
	d := cm.Dialer{LocalAddr: mustParse(from + ":0")}
	conn, err := d.Dial(context.Background(), "tcp", to)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("connected")
	conn.Wait(context.Background())
	return 0
}

// openChild says what Listen and Resolve fail with.
func openChild() int {
	_, err := cm.Dial(context.Background(), "tcp", os.Getenv("CM_TEST_ARG"))
	fmt.Printf("%v|%v|%v\n", err, errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission))
	return 0
}

// memoryChild says what a registration beyond RLIMIT_MEMLOCK fails with.
func memoryChild() int {
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 64 << 10, Max: 64 << 10}); err != nil {
		fmt.Println(err)
		return 1
	}
	r, err := cm.Resolve(context.Background(), "tcp", os.Getenv("CM_TEST_ARG"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer r.Close()
	pd, err := r.PD()
	if err == nil {
		_, err = pd.Alloc(1<<20, verbs.LocalWrite)
	}
	fmt.Printf("%v|%v\n", err, errors.Is(err, syscall.ENOMEM))
	return 0
}

// nobody runs a child without root and without capabilities.
func nobody(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}

func TestMissingNode(t *testing.T) {
	hosts := vmtest.Need(t, 2)
	for _, node := range []string{"/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs"} {
		hide(t, node)
		_, said := spawn(t, "open", hosts[0].IPv4+":7471", nobody)
		if !strings.Contains(said, node) || !strings.HasSuffix(said, "|true|false") {
			t.Errorf("without %s: %s", node, said)
		}
	}
}

func TestNoPermission(t *testing.T) {
	hosts := vmtest.Need(t, 2)
	for _, node := range []string{"/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs"} {
		forbid(t, node)
		_, said := spawn(t, "open", hosts[0].IPv4+":7471", nobody)
		if !strings.Contains(said, node) || !strings.HasSuffix(said, "|false|true") {
			t.Errorf("with %s forbidden: %s", node, said)
		}
	}
}

func TestMemlock(t *testing.T) {
	hosts := vmtest.Need(t, 2)
	_, said := spawn(t, "memory", hosts[0].IPv4+":7471", nobody)
	if !strings.Contains(said, "RLIMIT_MEMLOCK") || !strings.HasSuffix(said, "|true") {
		t.Errorf("it said: %s", said)
	}
}

// eachNode calls fn with the devices whose path begins with prefix.
func eachNode(t *testing.T, prefix string, fn func(path string)) {
	t.Helper()
	nodes, err := os.ReadDir("/dev/infiniband")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if path := "/dev/infiniband/" + n.Name(); strings.HasPrefix(path, prefix) {
			fn(path)
		}
	}
}

// hide takes devices away until the test ends.
func hide(t *testing.T, prefix string) {
	t.Helper()
	eachNode(t, prefix, func(path string) {
		if err := os.Rename(path, path+".hidden"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Rename(path+".hidden", path) })
	})
}

// forbid takes everybody's rights to devices away until the test ends.
func forbid(t *testing.T, prefix string) {
	t.Helper()
	eachNode(t, prefix, func(path string) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(path, info.Mode().Perm()) })
	})
}
