// SPDX-License-Identifier: Apache-2.0

package pairing

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// Path is a pair of addresses of a server and a client.
type Path struct {
	Server string // address of the server
	Client string // address to bind the client to, "" for the kernel's choice
}

// Paths returns the paths of this machine, IPv4 first. In the virtual machine they connect the
// two ends of the wire. Elsewhere both addresses belong to the first device's port with
// addresses.
func Paths() ([]Path, error) {
	if hosts := os.Getenv("RDMAVM_HOSTS"); hosts != "" {
		return guestPaths(hosts)
	}
	return hostPaths("/sys/class/infiniband")
}

func guestPaths(hosts string) ([]Path, error) {
	var ends [][]string
	for _, h := range strings.Fields(hosts) {
		if f := strings.Split(h, ","); len(f) >= 4 {
			ends = append(ends, f)
		}
	}
	if len(ends) < 2 {
		return nil, fmt.Errorf("RDMAVM_HOSTS = %q: want two hosts (rdmavm -hosts 2)", hosts)
	}
	return []Path{{Server: ends[0][2], Client: ends[1][2]}, {Server: ends[0][3], Client: ends[1][3]}}, nil
}

// hostPaths finds addresses among the GIDs of RoCE ports, and on the network devices of other
// ports.
func hostPaths(sys string) ([]Path, error) {
	ports, _ := filepath.Glob(filepath.Join(sys, "*", "ports", "*"))
	if len(ports) == 0 {
		return nil, errors.New("this machine has no RDMA device")
	}
	var passed []string
	for _, port := range ports {
		state, _ := os.ReadFile(filepath.Join(port, "state"))
		if !strings.Contains(string(state), "ACTIVE") {
			passed = append(passed, fmt.Sprintf("%s is not active: %q", port, strings.TrimSpace(string(state))))
			continue
		}
		var v4, v6 []Path
		gids, _ := filepath.Glob(filepath.Join(port, "gids", "*"))
		for _, gid := range gids {
			b, err := os.ReadFile(gid)
			if err != nil {
				continue // an empty entry
			}
			ip, err := netip.ParseAddr(strings.TrimSpace(string(b)))
			if err != nil {
				continue
			}
			// Both versions of RoCE have each address.
			switch ip = ip.Unmap(); {
			case ip.IsUnspecified() || ip.IsLinkLocalUnicast() || ip.IsLoopback():
			case ip.Is4() && len(v4) == 0:
				v4 = []Path{{Server: ip.String(), Client: ip.String()}}
			case ip.Is6() && len(v6) == 0:
				v6 = []Path{{Server: ip.String(), Client: ip.String()}}
			}
		}
		if paths := append(v4, v6...); len(paths) > 0 {
			return paths, nil
		}
		passed = append(passed, port+" has no IP address among its GIDs")
	}
	return nil, fmt.Errorf("no port of an RDMA device can be used: %s", strings.Join(passed, "; "))
}
