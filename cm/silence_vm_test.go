// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"purerdma/cm"
	"purerdma/internal/vmtest"
)

// TestDialLoopbackFromADevice dials loopback addresses. With LocalAddr, the kernel would
// resolve them on the device with LocalAddr, and the request would reach no host. On iWARP,
// TCP would try for minutes, so that the test skips these dials there.
func TestDialLoopbackFromADevice(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	d := dialerOf(hosts[1].IPv4)
	d6 := &cm.Dialer{LocalAddr: cm.AddrFrom(netip.AddrPortFrom(hosts[1].IPv6, 0))}
	dials := map[string]*cm.Dialer{"127.0.0.1:7471": d, "127.0.0.2:7471": d, "0.0.0.0:7471": d, "[::1]:7471": d6}
	if vmtest.IWARP() {
		dials = nil
	}
	for dst, d := range dials {
		_, err := d.Dial(within(t, 10*time.Second), "tcp", dst)
		wantError(t, err, "resolve", syscall.ENODEV, dst, "no RDMA device has a loopback address")
	}
	_, err := cm.Dial(within(t, 10*time.Second), "tcp", "127.0.0.1:7471")
	errno := syscall.ENODEV
	if vmtest.IWARP() {
		errno = syscall.EINVAL
	}
	wantError(t, err, "resolve", errno, "no RDMA device has a loopback address")
}

// TestDialAnAddressWithoutADevice dials an address of this host that no RDMA device has. The
// request reaches no device.
func TestDialAnAddressWithoutADevice(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatalf("netlink.LinkByName: %v", err)
	}
	addr, err := netlink.ParseAddr("10.99.0.1/32")
	if err == nil {
		err = netlink.AddrAdd(lo, addr)
	}
	if err != nil {
		t.Fatalf("AddrAdd: %v", err)
	}
	t.Cleanup(func() { netlink.AddrDel(lo, addr) })
	r, err := dialerOf(hosts[1].IPv4).Resolve(within(t, 10*time.Second), "tcp", "10.99.0.1:7471")
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	defer r.Close()
	if vmtest.IWARP() {
		_, err = r.Connect(within(t, 10*time.Second), nil, nil)
		wantError(t, err, "connect", syscall.ECONNREFUSED)
		return
	}
	_, err = r.Connect(within(t, 300*time.Millisecond), nil, nil)
	wantError(t, err, "connect", context.DeadlineExceeded, "10.99.0.1 is the address of lo on this host")
}
