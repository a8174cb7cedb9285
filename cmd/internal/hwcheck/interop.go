// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"time"
)

// interopChecks run programs of rdma-core against programs of this project, on this host.
var interopChecks = []Check{
	{ID: "interop", Local: true, Title: "programs of rdma-core with programs of this project, on this host", Limit: 10 * time.Minute, needs: needsPrograms, do: checkInterop},
}

// programTime bounds one run of a server and a client.
const programTime = 40 * time.Second

// programStart is the time after which a server listens. The C ucmatose may wait forever if only some of its connections are refused.
const programStart = time.Second

// interopProgram is a program of rdma-core.
type interopProgram struct {
	name string
	// flags are flags of both sides. Programs without a connection manager have the flags of programFlags.
	flags []string
	// server and client are the flags that distinguish the sides and precede the address. A program with a client connects by the
	// connection manager.
	server, client []string
	fixedPort      bool // it takes no -p
	// other has flags in the usage of versions that the project's program does not implement.
	other string
}

var interopPrograms = []interopProgram{
	{name: "rping", flags: []string{"-C", "20", "-V"}, server: []string{"-s", "-a"}, client: []string{"-c", "-a"}},
	{name: "ucmatose", flags: []string{"-c", "4", "-C", "20", "-S", "1000"}, server: []string{"-b"}, client: []string{"-s"}},
	{name: "udaddy", flags: []string{"-c", "3", "-C", "20", "-S", "500"}, server: []string{"-b"}, client: []string{"-s"}, fixedPort: true},
	// From version 52 of rdma-core on, the peers also meet over TCP.
	{name: "cmtime", flags: []string{"-c", "20"}, server: []string{"-b"}, client: []string{"-s"}, other: "-q"},
	{name: "ibv_rc_pingpong"}, {name: "ibv_uc_pingpong"}, {name: "ibv_ud_pingpong"}, {name: "ibv_srq_pingpong"},
}

// manager reports whether the program connects by the connection manager.
func (p *interopProgram) manager() bool { return p.client != nil }

// unusable returns the reason why the device or the program of rdma-core cannot be used, or "".
func (t *trial) unusable(p *interopProgram, theirs string) string {
	datagrams := p.name == "ibv_ud_pingpong" || p.name == "udaddy"
	switch {
	case iwarp(t.dev) && !p.manager():
		return "iWARP needs the connection manager"
	case iwarp(t.dev) && p.name == "ucmatose":
		return "its server sends first, which iWARP forbids (RFC 5044, 7.1)"
	case p.name == "ibv_uc_pingpong" && !t.features.UC || datagrams && !t.features.UD:
		return "the device does not support it"
	case p.other != "":
		// For an unknown flag the program prints its usage, and fails.
		ctx, cancel := context.WithTimeout(t.ctx, programTime)
		defer cancel()
		usage, err := exec.CommandContext(ctx, theirs, "-?").CombinedOutput()
		if err == nil || bytes.Contains(usage, []byte(p.other)) {
			return "another version of rdma-core"
		}
	}
	return ""
}

func needsPrograms(t *trial) string {
	if !t.target.Addr.IsValid() {
		return "no address of the port's network interface is known (-a)"
	}
	reason := ""
	for _, p := range interopPrograms {
		_, err := t.target.installed(p.name)
		if err == nil {
			if _, err = t.target.ours(p.name); err == nil {
				return ""
			}
			err = fmt.Errorf("there is no %s of this project next to this program", p.name)
		}
		if reason == "" {
			reason = err.Error()
		}
	}
	return reason
}

func checkInterop(t *trial) {
	used := 0
	for _, p := range interopPrograms {
		theirs, err := t.target.installed(p.name)
		if err != nil {
			t.note("%v", err)
			continue
		}
		own, err := t.target.ours(p.name)
		if err != nil {
			t.note("%v", err)
			continue
		}
		if reason := t.unusable(&p, theirs); reason != "" {
			t.note("%s: %s", p.name, reason)
			continue
		}
		// If rdma-core's program does not work with itself, the other results mean nothing.
		if err := t.pair(&p, theirs, theirs); err != nil {
			t.note("%s: rdma-core's with itself: %v", p.name, err)
			continue
		}
		used++
		t.must(p.name+" of this project with itself", t.pair(&p, own, own))
		t.must(p.name+", client of this project, server of rdma-core", t.pair(&p, theirs, own))
		t.must(p.name+", client of rdma-core, server of this project", t.pair(&p, own, theirs))
		t.note("%s: all four ways", p.name)
	}
	t.needsOne(used, "program of rdma-core that works with itself")
}

// pair runs two programs.
func (t *trial) pair(p *interopProgram, server, client string) error {
	ctx, cancel := context.WithTimeout(t.ctx, programTime)
	defer cancel()
	s, c, err := t.programFlags(p)
	if err != nil {
		return err
	}
	_, err = runPair(ctx, programStart, append([]string{server}, s...), append([]string{client}, c...))
	return err
}

// programFlags returns the flags of a server and of a client.
func (t *trial) programFlags(p *interopProgram) (server, client []string, err error) {
	port, err := t.freePort()
	if err != nil {
		return nil, nil, err
	}
	addr := t.target.Addr.String()
	if p.manager() {
		flags := p.flags
		if !p.fixedPort {
			flags = slices.Concat(flags, []string{"-p", port})
		}
		return slices.Concat(p.server, []string{addr}, flags), slices.Concat(p.client, []string{addr}, flags), nil
	}
	gid, err := t.target.gid(t.dev)
	if err != nil {
		return nil, nil, err
	}
	flags := []string{"-d", t.target.Device, "-i", strconv.Itoa(int(t.target.Port)), "-g", strconv.Itoa(int(gid.Index)), "-p", port, "-n", "100"}
	return flags, append(slices.Clone(flags), addr), nil
}

// freePort returns a TCP port of the target's address that nothing uses.
func (t *trial) freePort() (string, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort(t.target.Addr.String(), "0"))
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		ln.Close()
		return "", err
	}
	return port, ln.Close()
}
