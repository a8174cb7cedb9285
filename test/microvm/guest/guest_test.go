// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guest

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"purerdma/test/microvm/wire"
)

func TestFormatKmsg(t *testing.T) {
	for in, want := range map[string]string{
		"6,339,5140900,-;rdma_rxe: loaded\n":               "[    5.140900] rdma_rxe: loaded\n",
		"4,1,12,c;text; with more\n SUBSYSTEM=pci\n KEY=x": "[    0.000012] text; with more\n",
		"garbage": "garbage",
	} {
		if got := formatKmsg(in); got != want {
			t.Errorf("formatKmsg(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"prog": 0o755, "data": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	for _, tt := range []struct {
		name   string
		want   string
		status int
	}{
		{"./prog", dir + "/prog", 0},
		{dir + "/prog", dir + "/prog", 0},
		{"prog", dir + "/prog", 0},
		{"data", "", statusNoExec},
		{"./data", "", statusNoExec},
		{dir, "", statusNoExec},
		{"./none", "", statusNotFound},
		{"no-such-program-here", "", statusNotFound},
	} {
		got, err := lookPath(wire.Command{Dir: dir, Args: []string{tt.name}, Env: []string{"PATH=/none:" + dir}})
		status := 0
		if err != nil {
			status = startStatus(err)
		}
		if status != tt.status || err == nil && got != tt.want {
			t.Errorf("lookPath of %s = %q, %v (status %d), want %q, status %d", tt.name, got, err, status, tt.want, tt.status)
		}
	}
}

func TestStartStatus(t *testing.T) {
	for err, want := range map[error]int{
		&os.PathError{Op: "fork/exec", Path: "x", Err: unix.ENOENT}:  127,
		&os.PathError{Op: "fork/exec", Path: "x", Err: unix.ENOEXEC}: 126,
		&exec.Error{Name: "x", Err: exec.ErrNotFound}:                127,
		errors.New("other"): 126,
	} {
		if got := startStatus(err); got != want {
			t.Errorf("startStatus(%v) = %d, want %d", err, got, want)
		}
	}
}

func TestAliases(t *testing.T) {
	dir := t.TempDir()
	text := "alias crypto-crc32 crc32_generic\nalias net-pf-16-proto-* multi\nalias rdma-link-rxe rdma_rxe\n"
	if err := os.WriteFile(filepath.Join(dir, "modules.alias"), []byte(text), 0o644); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	m := &modules{dir: dir}
	for name, want := range map[string][]string{
		"crypto-crc32":       {"crypto_crc32", "crc32_generic"},
		"net-pf-16-proto-20": {"net_pf_16_proto_20", "multi"},
		"rdma-link-rxe":      {"rdma_link_rxe", "rdma_rxe"},
		"veth":               {"veth"},
	} {
		if got := m.aliases(name); !slices.Equal(got, want) {
			t.Errorf("aliases(%s) = %v, want %v", name, got, want)
		}
	}
}

// TestFunctions checks that a function counts only with both devices.
func TestFunctions(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{
		"0000:02:00.0/net/eth0", "0000:02:00.0/infiniband/mlx5_1",
		"0000:01:00.0/net/eth1", "0000:01:00.0/infiniband/mlx5_0",
		"0000:03:00.0/net/eth2", "0000:04:00.0/infiniband/mlx5_2", "0000:05:00.0/net",
		"module/net/eth3", "module/infiniband/mlx5_3",
	} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatalf("os.MkdirAll: %v", err)
		}
	}
	if got, want := functions(dir), []function{{"eth1", "mlx5_0"}, {"eth0", "mlx5_1"}}; !slices.Equal(got, want) {
		t.Errorf("functions = %v, want %v", got, want)
	}
	if got, want := numbered(filepath.Join(dir, "module")), []function{{"eth0", "infiniband"}, {"eth1", "net"}}; !slices.Equal(got, want) {
		t.Errorf("numbered = %v, want %v", got, want)
	}
}

func TestGIDs(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"0": "fe80:0000:0000:0000:944c:8dff:feaa:5c18\n",
		"1": "0000:0000:0000:0000:0000:ffff:0a08:0001\n",
		"2": "fd00:0008:0000:0000:0000:0000:0000:0001\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	have := gids(dir)
	e := plan[0]
	if !have[netip.AddrFrom16(e.v4.Addr().As16())] || !have[e.v6.Addr()] || len(have) != 3 {
		t.Errorf("gids = %v, want the two addresses of the end and a third", have)
	}
}

func TestIWARP(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]bool{"4: RNIC\n": true, "1: CA\n": false} {
		if err := os.WriteFile(filepath.Join(dir, "node_type"), []byte(text), 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
		if got := iWARP(dir); got != want {
			t.Errorf("iWARP with node type %q = %v, want %v", text, got, want)
		}
	}
}

func TestEndString(t *testing.T) {
	if got := plan[0].String(); got != "rxe0,eth8,10.8.0.1,fd00:8::1" {
		t.Errorf("String() = %s, want rxe0,eth8,10.8.0.1,fd00:8::1", got)
	}
}
