// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc/benchmark"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/longtest"
	"purerdma/internal/vmtest"
	"purerdma/stream"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

// loads has the calls of the tests. The defaults of gRPC's benchmark/client are 1 byte in each direction.
func loads() []load {
	calls := 50
	if longtest.Enabled() {
		calls = 2000
	}
	var all []load
	for _, rpcType := range []string{"unary", "streaming"} {
		all = append(all,
			load{rpcType: rpcType, request: 1, response: 1, parallel: 1, connections: 1, warmUp: 5, calls: calls},
			load{rpcType: rpcType, request: 1000, response: 100_000, parallel: 4, connections: 3, warmUp: 12, calls: calls},
			load{rpcType: rpcType, request: 1 << 20, response: 0, parallel: 2, connections: 1, calls: calls / 5})
	}
	return all
}

// bytes returns the bytes of the measured messages, without the bytes of protocols.
func (l *load) bytes() int64 { return int64(l.calls) * int64(l.request+l.response) }

// serve starts gRPC's benchmark server.
func serve(ln net.Listener) (stop func()) {
	return benchmark.StartServer(benchmark.ServerInfo{Type: "protobuf", Listener: ln})
}

// check runs all loads against a server.
func check(t *testing.T, n network, address string, transfer func(size int64, run func())) {
	for _, l := range loads() {
		t.Run(fmt.Sprintf("%s/%d/%d", l.rpcType, l.request, l.response), func(t *testing.T) {
			transfer(l.bytes(), func() {
				res, err := l.run(t.Context(), n, address)
				if err != nil || res.Calls != l.calls || !(res.QPS > 0 && res.Latency.P50 > 0 && res.Latency.P99 >= res.Latency.P50) {
					t.Errorf("run() = %+v, %v, want %d calls with times", res, err, l.calls)
				}
			})
		})
	}
}

// TestBenchmark runs gRPC's benchmark on fake devices of two kinds.
func TestBenchmark(t *testing.T) {
	for name, machine := range map[string]func() uverbs.Kernel{
		"rxe":  func() uverbs.Kernel { return uverbstest.New("rxe0", "rxe1") },
		"mlx5": func() uverbs.Kernel { return inprocess.New(inprocess.Config{}, "mlx5_0", "mlx5_1") },
	} {
		t.Run(name, func(t *testing.T) {
			k := cmtest.New(machine())
			n := streams(&stream.ListenConfig{CM: cm.ListenConfig{Host: k.Host()}}, &stream.Dialer{CM: cm.Dialer{Host: k.Host()}})
			ln, err := n.listen(t.Context(), "10.0.0.1:0")
			if err != nil {
				t.Fatalf("listen: %v", err)
			}
			defer serve(ln)()
			check(t, n, ln.Addr().String(), func(_ int64, run func()) { run() })
		})
	}
}

// TestVMBenchmark runs gRPC's benchmark between two devices.
func TestVMBenchmark(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	vmtest.AnyMemory(t)
	n, err := networkOf("stream", hosts[1].IPv4.String())
	if err != nil {
		t.Fatalf("networkOf: %v", err)
	}
	sides := vmtest.Sides{Listen: n.listen, Dial: n.dial, Serve: serve, Call: func(address string) {
		check(t, n, address, func(size int64, run func()) { vmtest.OverRDMA(t, size, run) })
	}}
	sides.Run(t, hosts[0].IPv4)
}

// TestRun runs the server and the client of the program over TCP.
func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- run(ctx, []string{"-net", "tcp", "-listen", "127.0.0.1"}, w) }()
	addr, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("the server's address: %v", err)
	}
	var out bytes.Buffer
	if err := run(ctx, []string{"-net", "tcp", "-local", "127.0.0.1", "-req", "7", "-resp", "9", "-r", "2", "-calls", "30", strings.TrimSpace(addr)}, &out); err != nil {
		t.Errorf("run() of the client = %v", err)
	}
	var res result
	if err := json.Unmarshal(out.Bytes(), &res); err != nil || res.Calls != 30 || !(res.Seconds > 0) {
		t.Errorf("output of the client = %q, %v, want 30 calls", out.Bytes(), err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("run() of the server = %v", err)
	}
	for _, bad := range [][]string{
		{}, {"-net", "udp", "x:1"}, {"-listen", "127.0.0.1", "x:1"}, {"-calls", "0", "x:1"}, {"-local", "x", "y:1"}, {"-net", "tcp", "-rpc_type", "none", "x:1"},
	} {
		if err := run(t.Context(), bad, io.Discard); err == nil {
			t.Errorf("run(%q) = nil, want an error", bad)
		}
	}
}
