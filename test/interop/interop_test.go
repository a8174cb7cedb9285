// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/test/pairing"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

// programs returns our rping, which the environment names, and rdma-core's.
func programs(t *testing.T) (ours, theirs pairing.Program) {
	t.Helper()
	vmtest.Need(t)
	path := os.Getenv("RPING")
	if path == "" {
		t.Fatal("RPING does not name our rping")
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
		t.Fatal(err)
	}
	return p
}

// Every pairing, both families, sizes from the smallest to the largest: each
// line of data is compared on both sides.
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

// More pings than there are letters, and numbers of several digits.
func TestManyPings(t *testing.T) {
	ours, theirs := programs(t)
	path := paths(t)[0]
	for _, pair := range [][2]pairing.Program{{ours, theirs}, {theirs, ours}} {
		run(t, pairing.Run{Server: pair[0], Client: pair[1], Addr: path.Server, Source: path.Client, Size: 100, Count: 130})
	}
}

// -q on either side and on both.
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
		if err := r.Do(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A persistent server has many clients at once, of both kinds. The C program's
// gets them one after the other: it confuses requests that come together, those
// of C clients, too, and hangs or crashes.
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
			const size, count = 500, 50
			path, port := paths(t)[0], pairing.NewPort()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			server, err := pairing.StartServer(ctx, c.server, path.Server, port, append([]string{"-S", fmt.Sprint(size)}, c.flags...)...)
			if err != nil {
				t.Fatal(err)
			}
			client := func(p pairing.Program) {
				out, err := pairing.RunClient(ctx, p, path.Server, port, 60*time.Second,
					"-I", path.Client, "-v", "-V", "-S", fmt.Sprint(size), "-C", fmt.Sprint(count))
				if err != nil || out.Status != 0 || out.Stdout != pairing.Lines("ping data: ", size, count) {
					t.Errorf("client %s: %v\n%v", p.Name, err, out)
				}
			}
			client(c.clients[0]) // the server is up now
			var clients sync.WaitGroup
			for _, p := range c.clients {
				if c.server == theirs {
					client(p)
				} else {
					clients.Go(func() { client(p) })
				}
			}
			clients.Wait()
			if !server.Alive() {
				t.Errorf("the server has ended: %v", server.Output())
			}
			server.Signal(syscall.SIGTERM)
			out, err := server.Wait(30 * time.Second)
			if err != nil || out.Status != 128+int(syscall.SIGTERM) {
				t.Errorf("the server after SIGTERM: %v %v", err, out)
			}
		})
	}
}

// Bad usage has the same words and the same status in both programs.
func TestUsage(t *testing.T) {
	ours, theirs := programs(t)
	for _, args := range []string{"", "-v", "-h", "-sx", "-s -p", "-s -t 1", "-sS 5", "-s -S65536x", "-c -C -1", "-s -S 70000 -C -3", "-c -a nosuch.invalid"} {
		t.Run(args, func(t *testing.T) {
			want := output(t, theirs, args)
			got := output(t, ours, args)
			// What C reads as another number, and what we add, is not compared.
			first, _, _ := strings.Cut(got.Stderr, "rping: ")
			if args == "-s -S65536x" {
				want.Stderr = strings.Replace(want.Stderr, "65536 (", "65536x (", 1)
			}
			if got.Stdout != want.Stdout || first != want.Stderr || got.Status != want.Status {
				t.Errorf("ours: %v\nC: %v", got, want)
			}
		})
	}
}

// Where the C program fails to connect, so do we, with the same status and the
// same line about the event.
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
				t.Parallel() // most of the time is the kernel's, until it gives up
				want := output(t, theirs, args+q)
				got := output(t, ours, args+q)
				t.Logf("ours: %v\nC: %v", got, want)
				if got.Status == 0 || got.Status != want.Status {
					t.Errorf("ours: status %d, C: %d", got.Status, want.Status)
				}
				if !strings.Contains(got.Stderr, "rping: rdma ") {
					t.Errorf("no cause: %q", got.Stderr)
				}
				for line := range strings.Lines(want.Stderr) {
					if strings.HasPrefix(line, "cma event ") && !strings.Contains(got.Stderr, line) {
						t.Errorf("%q is missing", line)
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
		t.Fatal(err)
	}
	out, err := proc.Wait(30 * time.Second)
	if err != nil {
		t.Fatalf("%s rping %s: %v\n%v", p.Name, args, err, out)
	}
	return out
}

// A client with more data than the server has room for: both sides say so and
// fail.
func TestTooMuchData(t *testing.T) {
	ours, theirs := programs(t)
	path := paths(t)[0]
	for _, pair := range [][2]pairing.Program{{ours, ours}, {ours, theirs}, {theirs, ours}} {
		for _, q := range []string{"-d", "-dq"} {
			t.Run(pair[0].Name+"-"+pair[1].Name+q, func(t *testing.T) {
				port := pairing.NewPort()
				server, err := pairing.StartServer(t.Context(), pair[0], path.Server, port, "-S", "64", q)
				if err != nil {
					t.Fatal(err)
				}
				client, err := pairing.RunClient(t.Context(), pair[1], path.Server, port, 20*time.Second, "-I", path.Client, "-S", "4096", "-C", "3", q)
				if err != nil {
					t.Errorf("client: %v\n%v", err, client)
				}
				if pair[1] == ours && (client.Status != 255 || !strings.Contains(client.Stderr, "disconnected after 0 of 3 pings")) {
					t.Errorf("client: %v", client)
				}
				served, err := server.Wait(30 * time.Second)
				if pair[0] == theirs {
					return
				}
				if err != nil || served.Status != 255 || !strings.Contains(served.Stderr, "the client offers 4096 bytes for a buffer of 64") {
					t.Errorf("server: %v %v", err, served)
				}
			})
		}
	}
}

// A server that is killed, and one that is interrupted, ends its client; so does
// a client its server.
func TestPeerEnds(t *testing.T) {
	ours, theirs := programs(t)
	path := paths(t)[0]
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		for _, other := range []pairing.Program{ours, theirs} {
			for _, q := range []string{"-V", "-q"} {
				t.Run(fmt.Sprintf("server %s %v %s", other.Name, sig, q), func(t *testing.T) {
					port := pairing.NewPort()
					server, err := pairing.StartServer(t.Context(), other, path.Server, port)
					if err != nil {
						t.Fatal(err)
					}
					client, err := pairing.StartClient(t.Context(), ours, path.Server, port, "-I", path.Client, q)
					if err != nil {
						t.Fatal(err)
					}
					server.Signal(sig)
					out, err := client.Wait(30 * time.Second)
					// Without a count the end of the server is the end.
					if err != nil || !peerEnded(t, "client", out) {
						t.Errorf("client: %v %v", err, out)
					}
					if out, err := server.Wait(30 * time.Second); err != nil || out.Status != 128+int(sig) {
						t.Errorf("server: %v %v", err, out)
					}
				})
				t.Run(fmt.Sprintf("client %s %v %s", other.Name, sig, q), func(t *testing.T) {
					port := pairing.NewPort()
					server, err := pairing.StartServer(t.Context(), ours, path.Server, port, q)
					if err != nil {
						t.Fatal(err)
					}
					client, err := pairing.StartClient(t.Context(), other, path.Server, port, "-I", path.Client)
					if err != nil {
						t.Fatal(err)
					}
					client.Signal(sig)
					out, err := server.Wait(30 * time.Second)
					if err != nil || !peerEnded(t, "server", out) {
						t.Errorf("server: %v %v", err, out)
					}
					if out, err := client.Wait(30 * time.Second); err != nil || out.Status != 128+int(sig) {
						t.Errorf("client: %v %v", err, out)
					}
				})
			}
		}
	}
}

// peerEnded judges one side of ours by how it has ended when its peer's process did.
// The kernel takes a process's verbs objects away from the newest to the oldest
// (__uverbs_cleanup_ufile), memory before the QP in all rpings, and after them its
// connections. What reaches for the memory in between is refused, before there is an
// event; C's rping has a failed completion then, too.
func peerEnded(t *testing.T, side string, out pairing.Output) bool {
	if out.Status == 0 {
		return strings.HasPrefix(out.Stderr, side+" DISCONNECT EVENT...\nwait for RDMA_")
	}
	t.Logf("%s: %v", side, out)
	return out.Status == 255 && (strings.Contains(out.Stderr, "remote operation error") || strings.Contains(out.Stderr, "remote access error"))
}

// What cannot be printed is a failure, and not silence.
func TestFullDisk(t *testing.T) {
	ours, _ := programs(t)
	path, port := paths(t)[0], pairing.NewPort()
	server, err := pairing.StartServer(t.Context(), ours, path.Server, port)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Wait(30 * time.Second)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for range 50 {
		var stderr strings.Builder
		cmd := exec.Command(ours.Path, "-c", "-a", path.Server, "-I", path.Client, "-p", fmt.Sprint(port), "-C", "3", "-v")
		cmd.Stdout, cmd.Stderr = full, &stderr
		err := cmd.Run()
		if strings.Contains(stderr.String(), "REJECTED, error 8") {
			time.Sleep(100 * time.Millisecond) // the server is not up yet
			continue
		}
		if cmd.ProcessState.ExitCode() != 255 || !strings.Contains(stderr.String(), "no space left on device") {
			t.Errorf("%v\n%s", err, &stderr)
		}
		return
	}
	t.Error("the server does not come up")
}
