// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"purerdma/cmd/internal/tool"
)

// Flags of newer versions. Their peers meet over TCP at a controller's address, and there may
// be any number of them. In version 44 no flag's name starts with one of these.
const (
	meshSpec    = "B:b:C:c:Lm:n:P:p:q:r:S:t:"
	meshFlags   = "BCLmnPqS"
	defaultQPN  = 1000
	maxPeers    = 1 << 12
	maxThreads  = 1 << 12
	maxQPN      = 1<<24 - 1
	maxDelay    = 1 << 30 // microseconds
	minPeers    = 2
	defaultPeer = 2
)

// isMesh reports whether a command line belongs to the newer version.
func isMesh(args []string) bool {
	flags, _, _ := tool.Getopt("s:"+meshSpec, args)
	for _, f := range flags {
		if strings.IndexByte(meshFlags, f.Name) >= 0 {
			return true
		}
	}
	return false
}

// meshOptions holds the parsed command line of the newer version.
type meshOptions struct {
	source     string        // -b, or the address of the interface of -B
	controller string        // -C
	port       string        // -p, a TCP port
	conns      int           // -c, connections to each listener
	listen     bool          // -L
	mimic      bool          // -m, a pause instead of QPs
	delay      time.Duration // -m
	threads    int           // -n
	peers      int           // -P
	qpn        uint32        // -q, the first number of a simulated QP
	retries    int           // -r
	sockets    bool          // -S
	timeout    time.Duration // -t
}

// The time that a peer has to reach a step: connectTime, connTime for each connection, and the timeouts and retries of the
// resolutions. The kernel's connection manager needs up to 2 minutes for a connection. A slow peer makes a hundred
// connections per second.
const (
	connectTime = 10 * time.Minute
	connTime    = 20 * time.Millisecond
	maxSyncTime = 24 * time.Hour
)

// syncTime returns the time that the other peers have to reach a step. They may have other options than this peer.
func (o *meshOptions) syncTime() time.Duration {
	conns := float64(o.conns) * float64(o.peers) * float64(connTime)
	resolve := 2 * float64(o.retries+1) * float64(o.timeout)
	return time.Duration(min(float64(connectTime)+conns+resolve, float64(maxSyncTime)))
}

var (
	errMeshNeeds  = errors.New("missing own address (-b or -B) or controller address (-C)")
	errTwoSources = errors.New("only one of -B and -b is accepted")
	errMeshPair   = errors.New("-S supports only 2 peers")
)

// parseMesh parses the command line of the newer version.
func parseMesh(args []string, u *tool.UI) (*meshOptions, error) {
	opt := &meshOptions{
		port: defaultPort, conns: defaultConns, threads: 1, peers: defaultPeer, qpn: defaultQPN,
		retries: defaultRetries, timeout: defaultTimeout,
	}
	flags, rest, err := tool.Getopt(meshSpec, args)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("unexpected argument %q", rest[0])
	}
	for _, f := range flags {
		var n int
		switch f.Name {
		case 'B', 'b':
			if opt.source != "" {
				return nil, errTwoSources
			}
			opt.source = f.Value
			if f.Name == 'B' {
				opt.source, err = interfaceAddress(f.Value, u)
			}
		case 'C':
			opt.controller = f.Value
		case 'c':
			opt.conns, err = f.Int(1, maxConns)
		case 'L':
			opt.listen = true
		case 'm':
			n, err = f.Int(0, maxDelay)
			opt.mimic, opt.delay = true, time.Duration(n)*time.Microsecond
		case 'n':
			opt.threads, err = f.Int(1, maxThreads)
		case 'P':
			opt.peers, err = f.Int(minPeers, maxPeers)
		case 'p':
			opt.port = f.Value
		case 'q':
			n, err = f.Int(0, maxQPN)
			opt.qpn = uint32(n)
		case 'r':
			opt.retries, err = f.Int(0, 1<<20)
		case 'S':
			opt.sockets = true
		case 't':
			n, err = f.Int(0, maxTimeout)
			opt.timeout = time.Duration(n) * time.Millisecond
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case opt.source == "" || opt.controller == "":
		return nil, errMeshNeeds
	case opt.sockets && opt.peers > minPeers:
		return nil, errMeshPair
	}
	return opt, nil
}

// interfaceAddress returns the first address of a network interface.
func interfaceAddress(name string, u *tool.UI) (string, error) {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return "", fmt.Errorf("-B %s: %w", name, err)
	}
	addrs, err := ifi.Addrs()
	if err != nil {
		return "", fmt.Errorf("-B %s: %w", name, err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			u.Printf("Picking source address %v for interface %s\n", p.Addr(), name)
			return p.Addr().String(), nil
		}
	}
	return "", fmt.Errorf("-B %s: the interface has no IP address", name)
}

const meshUsage = `	-B bind_interface (only one of -B or -b accepted)
	-b bind_address (only one of -B or -b accepted)
	-C controller_address
	[-c num_conns] connections per listener
	[-L] run as listening server
	[-m mimic_qp_delay_us]
	[-n num_threads]
	[-P num_peers] total number of peers
	[-p oob_port]
	[-q base_qpn]
	[-r retries]
	[-S] run socket baseline test, 2 peers only
	[-t timeout_ms]
`
