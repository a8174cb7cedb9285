// SPDX-License-Identifier: Apache-2.0

// Package pairing runs two rpings against each other, each the Go program or rdma-core's, and
// checks their output.
package pairing

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// serverLimit is the time that a server has to end after its client.
	serverLimit = 10 * time.Second
	// startLimit is the time that a server has to listen, and a client to print its first line,
	// on a busy machine.
	startLimit = 30 * time.Second
)

// lastPort ensures a new port for every server, so that the remains of an old connection never reach
// a new server.
var lastPort atomic.Int32

// NewPort returns a port that no other run uses.
func NewPort() int { return 20000 + int(lastPort.Add(1)) }

// Run is one server and one client.
type Run struct {
	Server, Client Program
	Addr           string // address of the server
	Source         string // address of the client, "" if it is not bound
	Size, Count    int
	ServerFlags    []string // in addition to -s -a -p -S -v
	ClientFlags    []string // in addition to -c -a -I -p -S -C -v -V
}

func (r Run) String() string {
	s := fmt.Sprintf("%s-%s %s size %d", r.Server.Name, r.Client.Name, r.Addr, r.Size)
	if len(r.ServerFlags)+len(r.ClientFlags) > 0 {
		s += fmt.Sprintf(" %s/%s", strings.Join(r.ServerFlags, " "), strings.Join(r.ClientFlags, " "))
	}
	return s
}

// Do runs both programs and verifies each ping's data in both directions.
func (r Run) Do(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	port := NewPort()
	server, err := StartServer(ctx, r.Server, r.Addr, port, append([]string{"-v", "-S", strconv.Itoa(r.Size)}, r.ServerFlags...)...)
	if err != nil {
		return err
	}
	client, cerr := RunClient(ctx, r.Client, r.Addr, port, r.clientLimit(), r.clientArgs()...)
	served, serr := server.Wait(serverLimit)
	bad := errors.Join(
		where("client", errors.Join(cerr, r.checkClient(client))),
		where("server", errors.Join(serr, r.checkServer(served))),
	)
	if bad != nil {
		return fmt.Errorf("%v: %w\nclient: %v\nserver: %v", r, bad, client, served)
	}
	return nil
}

func where(side string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", side, err)
}

func (r Run) clientLimit() time.Duration {
	return 15*time.Second + time.Duration(r.Count)*100*time.Millisecond
}

func (r Run) clientArgs() []string {
	args := []string{"-v", "-V", "-S", strconv.Itoa(r.Size), "-C", strconv.Itoa(r.Count)}
	if r.Source != "" {
		args = append(args, "-I", r.Source)
	}
	return append(args, r.ClientFlags...)
}

// StartServer starts a server.
func StartServer(ctx context.Context, p Program, addr string, port int, flags ...string) (*Process, error) {
	return Start(ctx, p, append([]string{"-s", "-a", addr, "-p", strconv.Itoa(port)}, flags...)...)
}

// RunClient runs a client to its end. It repeats the run until the server listens.
func RunClient(ctx context.Context, p Program, addr string, port int, limit time.Duration, flags ...string) (Output, error) {
	return RunWhile(ctx, p, limit, refused, append([]string{"-c", "-a", addr, "-p", strconv.Itoa(port)}, flags...)...)
}

// RunWhile runs a client to its end, and repeats the run while refused reports that its
// connection was refused. rdma-core's rping may hang after a refusal on iWARP. It is killed
// then.
func RunWhile(ctx context.Context, p Program, limit time.Duration, refused func(Output) bool, args ...string) (Output, error) {
	for start := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		proc, err := Start(ctx, p, args...)
		if err != nil {
			return Output{}, err
		}
		out, err := proc.waitUnless(refused, limit)
		if out.Status == 0 || time.Since(start) > startLimit || ctx.Err() != nil || !refused(out) {
			return out, err
		}
	}
}

// StartClient starts a client with -v and returns after its first pings. A fixed waiting time
// would not work, because the C program connects seconds late if the kernel misses a neighbor's
// answer. It repeats the start until the server listens, like RunWhile.
func StartClient(ctx context.Context, p Program, addr string, port int, flags ...string) (*Process, error) {
	args := append([]string{"-c", "-v", "-a", addr, "-p", strconv.Itoa(port)}, flags...)
	for start := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		proc, err := Start(ctx, p, args...)
		if err != nil {
			return nil, err
		}
		for proc.Alive() && !refused(proc.Output()) && time.Since(start) < startLimit {
			if proc.Output().Stdout != "" {
				return proc, nil
			}
			time.Sleep(10 * time.Millisecond)
		}
		if out := proc.Output(); !refused(out) || time.Since(start) > startLimit {
			return nil, fmt.Errorf("no ping of the client: %v", out)
		}
		if _, err := proc.waitUnless(refused, startLimit); err != nil {
			return nil, err
		}
	}
}

// refused reports whether a client was refused because of a missing listener. On RoCE and
// InfiniBand this is IB_CM_REJ_INVALID_SERVICE_ID, and on iWARP an errno, with the text of Go's
// syscall or of C's strerror.
func refused(o Output) bool {
	return strings.Contains(o.Stderr, "RDMA_CM_EVENT_REJECTED, error 8\n") ||
		strings.Contains(o.Stderr, "RDMA_CM_EVENT_REJECTED, error -111\n") ||
		strings.Contains(strings.ToLower(o.Stderr), syscall.ECONNREFUSED.Error())
}

// checkClient checks the client's status and every line of data.
func (r Run) checkClient(o Output) error {
	if o.Status != 0 {
		return fmt.Errorf("status %d", o.Status)
	}
	return sameLines(o.Stdout, Lines("ping data: ", r.Size, r.Count))
}

// checkServer checks every line of data of the server. Its last lines and its status are equal
// in both programs, except that the C program's status occasionally differs.
func (r Run) checkServer(o Output) error {
	if err := sameLines(o.Stdout, Lines("server ping data: ", r.Size, r.Count)); err != nil {
		return err
	}
	if r.Server.Name == "C" {
		return nil
	}
	if o.Status != 0 {
		return fmt.Errorf("status %d", o.Status)
	}
	return sameLines(o.Stderr, "server DISCONNECT EVENT...\nwait for RDMA_READ_ADV state 10\n")
}

// Lines returns the output of rping -v for a number of pings.
func Lines(prefix string, size, count int) string {
	var b strings.Builder
	for n := range count {
		b.WriteString(prefix)
		head := fmt.Sprintf("rdma-ping-%d: ", n)
		b.WriteString(head)
		for i := range size - len(head) - 1 {
			b.WriteByte('A' + byte((n+i)%58))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// sameLines returns an error with the first difference of two outputs.
func sameLines(got, want string) error {
	g, w := strings.SplitAfter(got, "\n"), strings.SplitAfter(want, "\n")
	for i := range max(len(g), len(w)) {
		switch {
		case i >= len(g) || i < len(w) && g[i] == "" && w[i] != "":
			return fmt.Errorf("%d lines, want %d", len(g)-1, len(w)-1)
		case i >= len(w) || g[i] != w[i]:
			if i == len(g)-1 && i < len(w) && strings.HasPrefix(w[i], g[i]) {
				return fmt.Errorf("the output ends within line %d: %.200q", i+1, g[i])
			}
			return fmt.Errorf("line %d is %.200q, want %.200q", i+1, g[i], append(w, "")[min(i, len(w))])
		}
	}
	return nil
}
