// SPDX-License-Identifier: Apache-2.0

//go:build linux

package wire

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/internal/cmdtrace"
	"purerdma/internal/vmtest"
	"purerdma/test/pairing"
	"purerdma/uverbs"
)

func TestMain(m *testing.M) {
	cmdtrace.Main()
	if name := os.Getenv(programVar); name != "" {
		if err := program(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	vmtest.Main(m)
}

// recording is a recorded program.
type recording struct {
	cmd  *exec.Cmd
	file string
	out  *strings.Builder
	// fails allows the program to fail.
	fails bool
}

// start runs a program under the recorder. With a name, it runs program.
func start(t *testing.T, ctx context.Context, name string, argv ...string) *recording {
	t.Helper()
	r := &recording{file: filepath.Join(t.TempDir(), "commands"), out: new(strings.Builder)}
	r.cmd = cmdtrace.Program(ctx, r.file, argv...)
	r.cmd.Env = append(r.cmd.Env, programVar+"="+name)
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.out
	if err := r.cmd.Start(); err != nil {
		t.Fatalf("r.cmd.Start: %v", err)
	}
	return r
}

// wait returns the commands of the program.
func (r *recording) wait(t *testing.T) map[string][]form {
	t.Helper()
	if err := r.cmd.Wait(); err != nil && !r.fails && !pairing.ClosedChannel(r.out.String()) {
		t.Errorf("%v: %v\n%s", r.cmd.Args, err, r.out)
	}
	all, err := cmdtrace.Read(r.file)
	if err != nil {
		t.Fatalf("cmdtrace.Read: %v", err)
	}
	return group(all)
}

// check compares two programs. need lists the commands that must have been compared.
func check(t *testing.T, program string, theirs, ours map[string][]form, need ...string) {
	t.Helper()
	compared, onlyOurs, differences := compare(program, theirs, ours)
	t.Logf("compared %d commands: %s", len(compared), strings.Join(compared, ", "))
	if len(onlyOurs) > 0 {
		t.Logf("commands of the Go program only: %s", strings.Join(onlyOurs, ", "))
	}
	for _, d := range differences {
		t.Error(d)
	}
	for _, n := range need {
		if !strings.Contains(strings.Join(compared, " "), n) {
			t.Errorf("%s was not compared", n)
		}
	}
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// until waits for a condition on a recorded program, which is slow.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timeout after 20 s: %s", what)
		}
	}
}

// pingpongListens checks for a listening socket (state 0A) on port 18515, which the
// ibv_*_pingpong programs use.
func pingpongListens() bool {
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, _ := os.ReadFile(file)
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) > 3 && strings.HasSuffix(f[1], ":4853") && f[3] == "0A" {
				return true
			}
		}
	}
	return false
}

// rpings contains the recordings of both ends of a connection between two rpings.
type rpings struct{ server, client map[string][]form }

// recordRpings records two C rpings and two Go rpings.
func recordRpings(t *testing.T) (theirs, ours rpings) {
	t.Helper()
	hosts := vmtest.Hosts(t, 2)
	own := os.Getenv("RPING")
	if own == "" {
		t.Fatal("RPING is not set to the Go rping")
	}
	c, err := exec.LookPath("rping")
	if err != nil {
		t.Fatalf("exec.LookPath: %v", err)
	}
	run := func(path string) (r rpings) {
		ctx := deadline(t)
		before := hosts[0].Listeners(t)
		s := start(t, ctx, "", path, "-s", "-a", hosts[0].IPv4.String(), "-C", "3", "-S", "100")
		until(t, "rping listens", func() bool { return hosts[0].Listeners(t) > before })
		cl := start(t, ctx, "", path, "-c", "-a", hosts[0].IPv4.String(), "-I", hosts[1].IPv4.String(), "-C", "3", "-S", "100")
		r.client = cl.wait(t)
		r.server = s.wait(t)
		return r
	}
	return run(c), run(own)
}

// TestRping compares both ends of a connection between two C rpings with those between two Go
// rpings.
func TestRping(t *testing.T) {
	c, g := recordRpings(t)
	t.Run("server", func(t *testing.T) {
		check(t, "rping", c.server, g.server, "UcmCreateID", "UcmBind", "UcmListen", "UcmAccept", "UcmInitQPAttr", "UVERBS_METHOD_QP_CREATE", "UVERBS_METHOD_CQ_CREATE",
			"IB_USER_VERBS_CMD_REG_MR", "IB_USER_VERBS_CMD_MODIFY_QP", "IB_USER_VERBS_CMD_POST_SEND", "IB_USER_VERBS_CMD_REQ_NOTIFY_CQ")
	})
	t.Run("client", func(t *testing.T) {
		check(t, "rping", c.client, g.client, "UcmCreateID", "UcmResolveRoute", "UcmConnect", "UcmInitQPAttr", "UVERBS_METHOD_QP_CREATE", "UVERBS_METHOD_CQ_CREATE",
			"IB_USER_VERBS_CMD_REG_MR", "IB_USER_VERBS_CMD_MODIFY_QP", "IB_USER_VERBS_CMD_POST_SEND", "IB_USER_VERBS_CMD_REQ_NOTIFY_CQ")
	})
}

// TestVerbs compares the operations of libibverbs's programs.
func TestVerbs(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	self := func(t *testing.T, name string) map[string][]form {
		return start(t, deadline(t), name, "/proc/self/exe").wait(t)
	}
	t.Run("devinfo", func(t *testing.T) {
		theirs := start(t, deadline(t), "", "ibv_devinfo", "-v").wait(t)
		check(t, "devinfo", theirs, self(t, "devinfo"), "UVERBS_METHOD_GET_CONTEXT", "UVERBS_METHOD_QUERY_PORT", "QUERY_DEVICE")
	})
	index := fmt.Sprint(gidIndex(t, hosts[0]))
	for name, need := range map[string][]string{
		"rc":  {"UVERBS_METHOD_QP_CREATE", "UVERBS_METHOD_CQ_CREATE", "IB_USER_VERBS_CMD_REG_MR", "IB_USER_VERBS_CMD_MODIFY_QP", "UVERBS_METHOD_MR_DESTROY", "IB_USER_VERBS_CMD_REQ_NOTIFY_CQ", "IB_USER_VERBS_CMD_POST_SEND"},
		"ud":  {"UVERBS_METHOD_QP_CREATE", "IB_USER_VERBS_CMD_CREATE_AH", "UVERBS_METHOD_AH_DESTROY", "IB_USER_VERBS_CMD_MODIFY_QP"},
		"srq": {"UVERBS_METHOD_SRQ_CREATE", "UVERBS_METHOD_SRQ_DESTROY", "UVERBS_METHOD_QP_CREATE"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := deadline(t)
			args := []string{"ibv_" + name + "_pingpong", "-d", hosts[0].Device, "-g", index, "-n", "5", "-e"}
			server := start(t, ctx, "", args...)
			until(t, "the server listens", pingpongListens)
			start(t, ctx, "", append(args, "127.0.0.1")...).wait(t)
			check(t, name, server.wait(t), self(t, name), need...)
		})
	}
}

// TestGIDAddresses compares the conversion of InfiniBand addresses from text to the kernel's
// command with ucmatose's. No device here has such an address, and the kernel rejects both.
func TestGIDAddresses(t *testing.T) {
	vmtest.Need(t)
	ours := start(t, deadline(t), "gid", "/proc/self/exe").wait(t)
	for name, args := range map[string][]string{
		"UcmBind":        {"-b", gidServer},
		"UcmResolveAddr": {"-b", fmt.Sprintf("%s%%%d", gidClient, gidClientScope), "-s", gidServer},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, deadline(t), "", append([]string{"ucmatose", "-f", "gid", "-p", fmt.Sprint(gidPort)}, args...)...)
			c.fails = true
			theirs := c.wait(t)
			command := func(m map[string][]form) map[string][]form {
				return maps.Collect(func(yield func(string, []form) bool) {
					for k, f := range m {
						if strings.HasSuffix(k, name) && !yield(k, f) {
							return
						}
					}
				})
			}
			check(t, "ucmatose", command(theirs), command(ours), name)
		})
	}
}

// gidIndex returns the index of the RoCE v2 GID of a host's IPv4 address.
func gidIndex(t *testing.T, host vmtest.Host) uint32 {
	infos, err := uverbs.System{}.Devices()
	if err != nil {
		t.Fatalf("uverbs.System.Devices: %v", err)
	}
	for _, info := range infos {
		if info.Name != host.Device {
			continue
		}
		f, err := uverbs.Open(uverbs.System{}, info)
		if err != nil {
			t.Fatalf("uverbs.Open: %v", err)
		}
		defer f.Close()
		if _, err := f.GetContext(uverbs.Driver{}); err != nil {
			t.Fatalf("f.GetContext: %v", err)
		}
		gids, err := f.QueryGIDTable(256)
		if err != nil {
			t.Fatalf("f.QueryGIDTable: %v", err)
		}
		for _, g := range gids {
			if g.GIDType == abi.IB_UVERBS_GID_TYPE_ROCE_V2 && netip.AddrFrom16(g.GID).Unmap() == host.IPv4 {
				return g.GIDIndex
			}
		}
	}
	t.Fatalf("%s has no GID for %v", host.Device, host.IPv4)
	return 0
}
