// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"purerdma/cm"
	"purerdma/internal/vmtest"
)

// namespace is a network namespace with one end of a veth pair and an RDMA device on it. It
// exists as long as its thread.
type namespace struct {
	path   string
	run    chan func()
	device string
	netdev string
	ip     netip.Addr
}

func newNamespace(t *testing.T, i int) *namespace {
	t.Helper()
	n := &namespace{
		run:    make(chan func()),
		device: fmt.Sprintf("nsrdma%d", i),
		netdev: fmt.Sprintf("nsveth%d", i),
		ip:     netip.AddrFrom4([4]byte{10, 77, 0, byte(i + 1)}),
	}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // permanently, so that the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		n.path = fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())
		made <- err
		for f := range n.run {
			f()
		}
	}()
	t.Cleanup(func() { close(n.run) })
	if err := <-made; err != nil {
		t.Fatalf("unshare: %v", err)
	}
	return n
}

// in runs fn in the namespace.
func (n *namespace) in(t *testing.T, fn func() error) {
	t.Helper()
	done := make(chan error)
	n.run <- func() { done <- fn() }
	if err := <-done; err != nil {
		t.Fatalf("in namespace %s: %v", n.path, err)
	}
}

// plug sets the address of the namespace's interface, and adds its RDMA device.
func (n *namespace) plug(t *testing.T) {
	t.Helper()
	n.in(t, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		link, err := netlink.LinkByName(n.netdev)
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr(n.ip.String() + "/24")
		if err != nil {
			return err
		}
		return errors.Join(
			os.WriteFile("/proc/sys/net/ipv6/conf/"+n.netdev+"/accept_dad", []byte("0"), 0),
			netlink.LinkSetUp(lo), netlink.AddrAdd(link, addr), netlink.LinkSetUp(link),
			netlink.RdmaLinkAdd(n.device, os.Getenv("RDMAVM_DRIVER"), n.netdev))
	})
	t.Cleanup(func() { n.in(t, func() error { return netlink.RdmaLinkDel(n.device) }) })
}

// linkLocal returns the interface's link-local address, with its name as zone.
func (n *namespace) linkLocal(t *testing.T) netip.Addr {
	t.Helper()
	var ip netip.Addr
	for end := time.Now().Add(10 * time.Second); !ip.IsValid(); time.Sleep(20 * time.Millisecond) {
		n.in(t, func() error {
			ifi, err := net.InterfaceByName(n.netdev)
			if err != nil {
				return err
			}
			addrs, err := ifi.Addrs()
			for _, a := range addrs {
				if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is6() && p.Addr().IsLinkLocalUnicast() {
					ip = p.Addr().WithZone(n.netdev)
				}
			}
			return err
		})
		if time.Now().After(end) {
			t.Fatal("no link-local address after 10 seconds")
		}
	}
	return ip
}

// waitGID waits until the device has the GID of its IPv4 address, which comes after the GID of
// the link-local address. siw has a single GID from the start. Devices are visible in every
// namespace.
func (n *namespace) waitGID(t *testing.T) {
	t.Helper()
	path := "/sys/class/infiniband/" + n.device + "/ports/1/gids/1"
	if os.Getenv("RDMAVM_DRIVER") == "siw" {
		path = strings.TrimSuffix(path, "1") + "0"
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		gid, err := os.ReadFile(path)
		if err == nil && strings.Trim(string(gid), "0:\n") != "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s = %q, %v after 10 seconds, want a GID", path, gid, err)
		}
	}
}

// TestNetNS connects two network namespaces other than the namespace of the process. One
// address is not reachable from the process. The zone of the other address names an interface
// that the process does not have.
func TestNetNS(t *testing.T) {
	vmtest.Need(t)
	server, client := newNamespace(t, 0), newNamespace(t, 1)
	attrs := netlink.NewLinkAttrs()
	attrs.Name = server.netdev
	server.in(t, func() error {
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: client.netdev}); err != nil {
			return err
		}
		link, err := netlink.LinkByName(client.netdev)
		if err != nil {
			return err
		}
		f, err := os.Open(client.path)
		if err != nil {
			return err
		}
		defer f.Close()
		return netlink.LinkSetNsFd(link, int(f.Fd()))
	})
	server.plug(t)
	client.plug(t)
	linkLocal := server.linkLocal(t)
	client.linkLocal(t)
	for _, n := range []*namespace{server, client} {
		n.waitGID(t)
	}
	vmtest.NoLeaks(t)

	for _, tc := range []struct {
		name       string
		listen, to netip.Addr
	}{
		{"IPv4", server.ip, server.ip},
		{"zone", linkLocal, linkLocal.WithZone(client.netdev)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := cm.Listen(context.Background(), "tcp", at(tc.listen, 0)); err == nil {
				t.Fatal("Listen on the namespace's address in this namespace = nil, want an error")
			}
			if _, err := cm.Dial(within(t, 5*time.Second), "tcp", at(tc.to, 7471)); err == nil {
				t.Fatal("Dial from this namespace = nil, want an error")
			}
			ln, err := (&cm.ListenConfig{NetNS: server.path}).Listen(context.Background(), "tcp", at(tc.listen, 0))
			if err != nil {
				t.Fatalf("Listen: %v", err)
			}
			defer ln.Close()
			go echo(ln)
			d := &cm.Dialer{NetNS: client.path}
			ctx := within(t, 20*time.Second)
			to := at(tc.to, ln.Addr().Port())
			if rxeHasOneNamespace(t) {
				// Only the route exists, through the namespace's own device.
				r, err := d.Resolve(ctx, "tcp", to)
				if err != nil {
					t.Fatalf("Resolve: %v", err)
				}
				defer r.Close()
				if name := r.Device().Name(); name != client.device {
					t.Errorf("device of the route = %s, want %s", name, client.device)
				}
				return
			}
			conn, err := d.Dial(ctx, "tcp", to)
			if err != nil {
				t.Fatalf("Dial: %v", err)
			}
			defer conn.Close()
			if name := conn.Device().Name(); name != client.device {
				t.Errorf("device of the connection = %s, want %s", name, client.device)
			}
			say(t, conn, "from namespace to namespace")
		})
	}
	_, err := (&cm.Dialer{NetNS: "no-such-namespace"}).Dial(context.Background(), "tcp", at(server.ip, 1))
	var op *cm.OpError
	if !errors.Is(err, os.ErrNotExist) || !errors.As(err, &op) || !strings.Contains(err.Error(), "/run/netns/no-such-namespace") {
		t.Errorf("Dial from an unknown namespace = %v, want ErrNotExist with its path", err)
	}
}

// rxeHasOneNamespace reports whether the driver is rxe of a kernel before 7. Its sockets are
// only in the first namespace.
func rxeHasOneNamespace(t *testing.T) bool {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatalf("unix.Uname: %v", err)
	}
	return os.Getenv("RDMAVM_DRIVER") == "rxe" && u.Release[0] < '7'
}
