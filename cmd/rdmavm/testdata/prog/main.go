// SPDX-License-Identifier: Apache-2.0

// Prog is the program that the end-to-end test runs in virtual machines.
package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	switch os.Args[1] {
	case "wire":
		wire()
	case "peers":
		peers()
	case "wait": // for a signal
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGINT, syscall.SIGTERM)
		fmt.Println("ready")
		fmt.Println("got", <-c)
		os.Exit(9)
	case "hang":
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "files":
		files()
	}
}

type end struct {
	rdma, netdev string
	v4, v6       netip.Addr
}

func ends() (es []end) {
	for _, h := range strings.Fields(os.Getenv("RDMAVM_HOSTS")) {
		f := strings.Split(h, ",")
		es = append(es, end{f[0], f[1], netip.MustParseAddr(f[2]), netip.MustParseAddr(f[3])})
	}
	return es
}

// wire sends from one end to the other and looks whether the cable is used.
func wire() {
	es := ends()
	for _, e := range es {
		if _, err := os.Stat("/sys/class/infiniband/" + e.rdma); err != nil {
			fail(err)
		}
	}
	for i := range 2 {
		from, to := es[i], es[1-i]
		for _, a := range [][2]netip.Addr{{from.v4, to.v4}, {from.v6, to.v6}} {
			before := packets(to.netdev)
			send(a[0], a[1])
			if n := packets(to.netdev) - before; n < 10 {
				fail(fmt.Errorf("%s to %s: %d of 10 packets came in by %s", a[0], a[1], n, to.netdev))
			}
		}
	}
	fmt.Println("wire ok")
}

// send sends ten datagrams.
func send(from, to netip.Addr) {
	l, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 7000)))
	if err != nil {
		fail(err)
	}
	defer l.Close()
	c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 7000)))
	if err != nil {
		fail(err)
	}
	defer c.Close()
	for range 10 {
		if _, err := c.Write([]byte("hello")); err != nil {
			fail(err)
		}
		l.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := l.Read(make([]byte, 100)); err != nil {
			fail(err)
		}
	}
}

func packets(netdev string) (n int) {
	b, err := os.ReadFile("/sys/class/net/" + netdev + "/statistics/rx_packets")
	if err != nil {
		fail(err)
	}
	fmt.Sscan(string(b), &n)
	return n
}

// peers has two virtual machines talk.
func peers() {
	es := ends()
	if os.Getenv("RDMAVM_HOST") == "0" {
		l, err := net.Listen("tcp", netip.AddrPortFrom(es[0].v6, 7000).String())
		if err != nil {
			fail(err)
		}
		c, err := l.Accept()
		if err != nil {
			fail(err)
		}
		fmt.Println("served", c.RemoteAddr().(*net.TCPAddr).IP)
		c.Close()
		return
	}
	for range 300 {
		c, err := net.Dial("tcp", netip.AddrPortFrom(es[0].v6, 7000).String())
		if err == nil {
			fmt.Println("dialled", c.LocalAddr().(*net.TCPAddr).IP)
			os.Exit(3)
		}
		time.Sleep(100 * time.Millisecond)
	}
	fail(fmt.Errorf("host 0 does not answer"))
}

// files lists the contents of the root.
func files() {
	filepath.WalkDir("/", func(p string, d os.DirEntry, err error) error {
		switch p {
		case "/proc", "/sys", "/dev", "/run":
			return filepath.SkipDir
		}
		if d != nil && !d.IsDir() {
			fmt.Println(p)
		}
		return nil
	})
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
