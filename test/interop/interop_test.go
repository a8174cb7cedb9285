// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/test/pairing"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

// programs returns the Go rping of the environment, and rdma-core's rping.
func programs(t *testing.T) (ours, theirs pairing.Program) {
	t.Helper()
	vmtest.Need(t)
	path := os.Getenv("RPING")
	if path == "" {
		t.Fatal("RPING is not set to the Go rping")
	}
	c, err := exec.LookPath("rping")
	if err != nil {
		t.Fatalf("rdma-core's rping is missing: %v", err)
	}
	return pairing.Program{Name: "Go", Path: path}, pairing.Program{Name: "C", Path: c}
}

func paths(t *testing.T) []pairing.Path {
	t.Helper()
	vmtest.Need(t)
	p, err := pairing.Paths()
	if err != nil {
		t.Fatalf("pairing.Paths: %v", err)
	}
	return p
}

// TestMatrix runs every pairing over both families, with sizes from the smallest to the
// largest. It compares each line of data on both sides.
func TestMatrix(t *testing.T) {
	ours, theirs := programs(t)
	for _, pair := range [][2]pairing.Program{{ours, ours}, {ours, theirs}, {theirs, ours}, {theirs, theirs}} {
		for _, path := range paths(t) {
			for _, size := range []int{23, 64, 4096, 65535} {
				if pair[0] == theirs && pair[1] == theirs && size != 64 {
					continue // the control
				}
				run(t, pairing.Run{Server: pair[0], Client: pair[1], Addr: path.Server, Source: path.Client, Size: size, Count: 10})
			}
		}
	}
}

// TestManyPings runs more pings than there are letters, with numbers of several digits.
func TestManyPings(t *testing.T) {
	ours, theirs := programs(t)
	path := paths(t)[0]
	for _, pair := range [][2]pairing.Program{{ours, theirs}, {theirs, ours}} {
		run(t, pairing.Run{Server: pair[0], Client: pair[1], Addr: path.Server, Source: path.Client, Size: 100, Count: 130})
	}
}

// TestSelfQP runs -q on either side and on both sides.
func TestSelfQP(t *testing.T) {
	ours, theirs := programs(t)
	q, plain := []string{"-q"}, []string(nil)
	for _, path := range paths(t) {
		for _, c := range []struct {
			server, client           pairing.Program
			serverFlags, clientFlags []string
		}{
			{ours, ours, q, q}, {ours, ours, q, plain}, {ours, ours, plain, q},
			{ours, theirs, q, plain}, {ours, theirs, q, q}, {theirs, ours, plain, q}, {theirs, ours, q, q},
		} {
			run(t, pairing.Run{Server: c.server, Client: c.client, Addr: path.Server, Source: path.Client, Size: 1000, Count: 5,
				ServerFlags: c.serverFlags, ClientFlags: c.clientFlags})
		}
	}
}

func run(t *testing.T, r pairing.Run) {
	t.Helper()
	t.Run(strings.ReplaceAll(r.String(), " ", "_"), func(t *testing.T) {
		if err := repeatFaults(t, r.Do); err != nil {
			t.Errorf("r.Do: %v", err)
		}
	})
}

// TestPersistent runs a persistent server with many concurrent clients of both kinds. The C
// program's clients run one after the other, because it confuses concurrent requests, even from
// C clients, and hangs or crashes.
func TestPersistent(t *testing.T) {
	ours, theirs := programs(t)
	for _, c := range []struct {
		name    string
		server  pairing.Program
		flags   []string
		clients []pairing.Program
	}{
		{"Go-C", ours, []string{"-P"}, []pairing.Program{theirs, theirs, theirs, theirs, theirs}},
		{"Go-both", ours, []string{"-P"}, []pairing.Program{ours, theirs, ours, theirs, ours}},
		{"Go-q", ours, []string{"-Pq"}, []pairing.Program{ours, theirs, ours}},
		{"C-Go", theirs, []string{"-P"}, []pairing.Program{ours, ours, ours, ours, ours}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := repeatFaults(t, func(ctx context.Context) error {
				return servePersistently(ctx, t, c.server, c.flags, c.clients, c.server != theirs)
			})
			if err != nil {
				t.Errorf("servePersistently: %v", err)
			}
		})
	}
}

// servePersistently starts a persistent server. It runs the first client, and then all clients, one after the other or
// concurrently. It returns an error only if ctx ends first.
func servePersistently(ctx context.Context, t *testing.T, program pairing.Program, flags []string, clients []pairing.Program, concurrent bool) error {
	t.Helper()
	const size, count = 500, 50
	path, port := paths(t)[0], pairing.NewPort()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server, err := pairing.StartServer(ctx, program, path.Server, port, append([]string{"-S", fmt.Sprint(size)}, flags...)...)
	if err != nil {
		t.Fatalf("pairing.StartServer: %v", err)
	}
	client := func(p pairing.Program) {
		out, err := pairing.RunClient(ctx, p, path.Server, port, 60*time.Second,
			"-I", path.Client, "-v", "-V", "-S", fmt.Sprint(size), "-C", fmt.Sprint(count))
		if ctx.Err() == nil && (err != nil || out.Status != 0 || out.Stdout != pairing.Lines("ping data: ", size, count)) {
			t.Errorf("client %s: %v\n%v", p.Name, err, out)
		}
	}
	client(clients[0]) // wait until the server listens
	var all sync.WaitGroup
	for _, p := range clients {
		if concurrent {
			all.Go(func() { client(p) })
		} else {
			client(p)
		}
	}
	all.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !server.Alive() {
		t.Errorf("the server has ended: %v", server.Output())
	}
	server.Signal(syscall.SIGTERM)
	out, err := server.Wait(30 * time.Second)
	if err != nil || out.Status != 128+int(syscall.SIGTERM) {
		t.Errorf("server after SIGTERM: %v, %v", err, out)
	}
	return nil
}

// TestUsage checks that both programs print equal messages for bad usage, and return equal
// statuses.
func TestUsage(t *testing.T) {
	ours, theirs := programs(t)
	for _, args := range []string{"", "-v", "-h", "-sx", "-s -p", "-s -t 1", "-sS 5", "-s -S65536x", "-c -C -1", "-s -S 70000 -C -3", "-c -a nosuch.invalid"} {
		t.Run(args, func(t *testing.T) {
			want := output(t, theirs, args)
			got := output(t, ours, args)
			// Do not compare numbers that C parses differently, and additional lines.
			first, _, _ := strings.Cut(got.Stderr, "rping: ")
			if args == "-s -S65536x" {
				want.Stderr = strings.Replace(want.Stderr, "65536 (", "65536x (", 1)
			}
			if got.Stdout != want.Stdout || first != want.Stderr || got.Status != want.Status {
				t.Errorf("Go: %v\nC: %v", got, want)
			}
		})
	}
}

// TestCannotConnect checks that both programs fail to connect with equal statuses and equal
// lines about the event.
func TestCannotConnect(t *testing.T) {
	ours, theirs := programs(t)
	path := paths(t)[0]
	for name, args := range map[string]string{
		"nobody listens": fmt.Sprintf("-c -a %s -I %s -p %d -C 1", path.Server, path.Client, pairing.NewPort()),
		"no such peer":   "-c -a 10.8.0.77 -C 1",
		"no route":       "-c -a 203.0.113.1 -C 1",
		"not our source": fmt.Sprintf("-c -a %s -I 203.0.113.1 -C 1", path.Server),
		"foreign server": "-s -a 203.0.113.1",
	} {
		for _, q := range []string{"", " -q"} {
			t.Run(name+q, func(t *testing.T) {
				t.Parallel() // most of the time is the kernel's timeout
				want := output(t, theirs, args+q)
				got := output(t, ours, args+q)
				t.Logf("ours: %v\nC: %v", got, want)
				if got.Status == 0 || got.Status != want.Status {
					t.Errorf("Go: status %d, C: %d", got.Status, want.Status)
				}
				if !strings.Contains(got.Stderr, "rping: rdma ") {
					t.Errorf("stderr = %q, want the cause", got.Stderr)
				}
				for line := range strings.Lines(want.Stderr) {
					if strings.HasPrefix(line, "cma event ") && !strings.Contains(got.Stderr, line) {
						t.Errorf("output lacks %q", line)
					}
				}
			})
		}
	}
}

func output(t *testing.T, p pairing.Program, args string) pairing.Output {
	t.Helper()
	proc, err := pairing.Start(t.Context(), p, strings.Fields(args)...)
	if err != nil {
		t.Fatalf("pairing.Start: %v", err)
	}
	out, err := proc.Wait(30 * time.Second)
	if err != nil {
		t.Fatalf("%s rping %s: %v\n%v", p.Name, args, err, out)
	}
	return out
}

// TestTooMuchData runs a client with more data than the server's buffer. Both sides must report
// this and fail.
func TestTooMuchData(t *testing.T) {
	ours, theirs := programs(t)
	path := paths(t)[0]
	for _, pair := range [][2]pairing.Program{{ours, ours}, {ours, theirs}, {theirs, ours}} {
		for _, q := range []string{"-d", "-dq"} {
			t.Run(pair[0].Name+"-"+pair[1].Name+q, func(t *testing.T) {
				port := pairing.NewPort()
				server, err := pairing.StartServer(t.Context(), pair[0], path.Server, port, "-S", "64", q)
				if err != nil {
					t.Fatalf("pairing.StartServer: %v", err)
				}
				client, err := pairing.RunClient(t.Context(), pair[1], path.Server, port, 20*time.Second, "-I", path.Client, "-S", "4096", "-C", "3", q)
				if err != nil {
					t.Errorf("client: %v\n%v", err, client)
				}
				if pair[1] == ours && (client.Status != 255 || !strings.Contains(client.Stderr, "disconnected after 0 of 3 pings")) {
					t.Errorf("client: %v, want status 255", client)
				}
				served, err := server.Wait(30 * time.Second)
				if pair[0] == theirs {
					return
				}
				if err != nil || served.Status != 255 || !strings.Contains(served.Stderr, "the client offers 4096 bytes for a buffer of 64") {
					t.Errorf("server: %v, %v, want status 255", err, served)
				}
			})
		}
	}
}

// TestPeerEnds checks that a killed or interrupted server ends its client, and that such a
// client ends its server.
//
// A flush without a failed request was seen once on rxe (docs/reference/driver-faults.md). A packet
// that the network device has refused causes one, so a failure reports these packets.
func TestPeerEnds(t *testing.T) {
	ours, theirs := programs(t)
	path := paths(t)[0]
	if vmtest.Driver() == "rxe" {
		const counter = "hw_counters/send_err"
		before := vmtest.Counter(t, counter)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("packets that the network devices have refused: %d", vmtest.Counter(t, counter)-before)
			}
		})
	}
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		for _, other := range []pairing.Program{ours, theirs} {
			for _, q := range []string{"-V", "-q"} {
				t.Run(fmt.Sprintf("server %s %v %s", other.Name, sig, q), func(t *testing.T) {
					server, client := startPair(t, path, other, nil, ours, []string{q})
					server.Signal(sig)
					out, err := client.Wait(30 * time.Second)
					// Without a count, the client runs until the server ends.
					if err != nil || !peerEnded(t, "client", out) {
						t.Errorf("client: %v, %v, want an error about its peer", err, out)
					}
					if out, err := server.Wait(30 * time.Second); err != nil || out.Status != 128+int(sig) {
						t.Errorf("server: %v, %v, want the signal's status", err, out)
					}
				})
				t.Run(fmt.Sprintf("client %s %v %s", other.Name, sig, q), func(t *testing.T) {
					server, client := startPair(t, path, ours, []string{q}, other, nil)
					client.Signal(sig)
					out, err := server.Wait(30 * time.Second)
					if err != nil || !peerEnded(t, "server", out) {
						t.Errorf("server: %v, %v, want an error about its peer", err, out)
					}
					if out, err := client.Wait(30 * time.Second); err != nil || out.Status != 128+int(sig) {
						t.Errorf("client: %v, %v, want the signal's status", err, out)
					}
				})
			}
		}
	}
}

// startPair starts a server and a client, and returns after the client's first pings. It repeats the start if siw has left
// the first message unread.
func startPair(t *testing.T, path pairing.Path, server pairing.Program, serverFlags []string, client pairing.Program, clientFlags []string) (s, c *pairing.Process) {
	t.Helper()
	err := repeatFaults(t, func(ctx context.Context) (err error) {
		own, cancel := context.WithCancel(t.Context()) // outlives ctx
		t.Cleanup(cancel)
		defer context.AfterFunc(ctx, cancel)()
		port := pairing.NewPort()
		if s, err = pairing.StartServer(own, server, path.Server, port, serverFlags...); err != nil {
			return err
		}
		c, err = pairing.StartClient(own, client, path.Server, port, append([]string{"-I", path.Client}, clientFlags...)...)
		return err
	})
	if err != nil {
		t.Fatalf("start a server and a client: %v", err)
	}
	return s, c
}

// peerEnded checks the end of a Go program after the end of its peer's process. The kernel
// destroys a process's verbs objects from the newest to the oldest (__uverbs_cleanup_ufile),
// and its connections afterwards. In all rpings the memory is newer than the QP. Accesses to
// the memory in between are rejected before there is an event. C's rping reports a failed
// completion in this case as well as the Go program. On siw, a request may use the closed TCP connection before the
// event. It completes with a local QP operation error (docs/reference/driver-faults.md).
func peerEnded(t *testing.T, side string, out pairing.Output) bool {
	if out.Status == 0 {
		return strings.HasPrefix(out.Stderr, side+" DISCONNECT EVENT...\nwait for RDMA_")
	}
	t.Logf("%s: %v", side, out)
	failures := []string{"remote operation error", "remote access error"}
	if vmtest.Driver() == "siw" {
		failures = append(failures, "local QP operation error")
	}
	return out.Status == 255 && slices.ContainsFunc(failures, func(s string) bool { return strings.Contains(out.Stderr, s) })
}

// TestFullDisk checks that a write error of the output is a failure.
func TestFullDisk(t *testing.T) {
	ours, _ := programs(t)
	path, port := paths(t)[0], pairing.NewPort()
	server, err := pairing.StartServer(t.Context(), ours, path.Server, port)
	if err != nil {
		t.Fatalf("pairing.StartServer: %v", err)
	}
	defer server.Wait(30 * time.Second)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatalf("os.OpenFile: %v", err)
	}
	defer full.Close()
	for range 300 {
		var stderr strings.Builder
		cmd := exec.Command(ours.Path, "-c", "-a", path.Server, "-I", path.Client, "-p", fmt.Sprint(port), "-C", "3", "-v")
		cmd.Stdout, cmd.Stderr = full, &stderr
		err := cmd.Run()
		if strings.Contains(stderr.String(), "no listener on that port") {
			time.Sleep(100 * time.Millisecond) // the server does not listen yet
			continue
		}
		if cmd.ProcessState.ExitCode() != 255 || !strings.Contains(stderr.String(), "no space left on device") {
			t.Errorf("client with a full disk: %v\n%s", err, &stderr)
		}
		return
	}
	t.Error("the server does not listen")
}
