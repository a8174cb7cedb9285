// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"
)

// interopChecks run programs of rdma-core against programs of this project, on this host.
var interopChecks = []Check{
	{ID: "interop", Local: true, Title: "programs of rdma-core with programs of this project, on this host", Limit: 4 * time.Minute, needs: needsPrograms, do: checkInterop},
}

// programTime bounds one run of a server and a client.
const programTime = 15 * time.Second

// interopProgram is a program of rdma-core.
type interopProgram struct {
	name    string
	manager bool // it connects by the connection manager
}

var interopPrograms = []interopProgram{
	{"rping", true}, {"ibv_rc_pingpong", false}, {"ibv_uc_pingpong", false}, {"ibv_ud_pingpong", false}, {"ibv_srq_pingpong", false},
}

func needsPrograms(t *trial) string {
	if !t.target.Addr.IsValid() {
		return "no address of the port's network interface is known (-a)"
	}
	reason := ""
	for _, p := range interopPrograms {
		_, err := installed(p.name)
		if err == nil {
			if _, err = ours(p.name); err == nil {
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
		theirs, err := installed(p.name)
		if err != nil {
			t.note("%v", err)
			continue
		}
		own, err := ours(p.name)
		if err != nil {
			t.note("%v", err)
			continue
		}
		if iwarp(t.dev) && !p.manager || p.name == "ibv_uc_pingpong" && !t.features.UC || p.name == "ibv_ud_pingpong" && !t.features.UD {
			continue
		}
		// If rdma-core's program does not work with itself, the other results mean nothing.
		if err := t.pair(&p, theirs, theirs); err != nil {
			t.note("%s: rdma-core's with itself: %v", p.name, err)
			continue
		}
		used++
		t.must(p.name+", client of this project, server of rdma-core", t.pair(&p, theirs, own))
		t.must(p.name+", client of rdma-core, server of this project", t.pair(&p, own, theirs))
		t.note("%s: both directions", p.name)
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
	_, err = runPair(ctx, append([]string{server}, s...), append([]string{client}, c...))
	return err
}

// programFlags returns the flags of a server and of a client.
func (t *trial) programFlags(p *interopProgram) (server, client []string, err error) {
	port, err := t.freePort()
	if err != nil {
		return nil, nil, err
	}
	addr := t.target.Addr.String()
	if p.manager {
		flags := []string{"-a", addr, "-p", port, "-C", "20", "-V"}
		return append([]string{"-s"}, flags...), append([]string{"-c"}, flags...), nil
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
