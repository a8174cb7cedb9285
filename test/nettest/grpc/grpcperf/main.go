// SPDX-License-Identifier: Apache-2.0

// Grpcperf runs gRPC's benchmark (google.golang.org/grpc/benchmark) on package stream or TCP.
//
//	grpcperf [-net stream] -listen ADDRESS          a server, which prints its address with the port
//	grpcperf [-net stream] [-local ADDRESS] [-rpc_type unary] [-req N] [-resp N] [-r N] [-c N] [-w N] [-calls N] SERVER
//
// The server is the server of gRPC's benchmark. The client makes the calls of the program benchmark/client. That program
// itself dials TCP only, and has no option for another dialer. The flags -rpc_type, -req, -resp, -r and -c have
// their meanings in benchmark/client. A run has a number of calls instead of a duration. The client prints a line of JSON, with times in
// microseconds.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"

	"google.golang.org/grpc/benchmark"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "grpcperf:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("want -listen ADDRESS, or the address of a server")

// run is the program. The server ends with ctx.
func run(ctx context.Context, args []string, w io.Writer) error {
	l := load{}
	fs := flag.NewFlagSet("grpcperf", flag.ContinueOnError)
	network := fs.String("net", "stream", "stream or tcp")
	listen := fs.String("listen", "", "run the server on this `address`")
	local := fs.String("local", "", "own `address` of the client")
	fs.StringVar(&l.rpcType, "rpc_type", "unary", "unary or streaming")
	fs.IntVar(&l.request, "req", 1, "`bytes` of a request")
	fs.IntVar(&l.response, "resp", 1, "`bytes` of a response")
	fs.IntVar(&l.parallel, "r", 1, "calls at a time on each connection")
	fs.IntVar(&l.connections, "c", 1, "connections")
	fs.IntVar(&l.warmUp, "w", 20, "calls before the measured ones")
	fs.IntVar(&l.calls, "calls", 1000, "measured calls of all connections")
	if err := fs.Parse(args); err != nil {
		return err
	}
	n, err := networkOf(*network, *local)
	switch {
	case err != nil:
		return err
	case *listen != "" && fs.NArg() == 0:
		ln, err := n.listen(ctx, net.JoinHostPort(*listen, "0"))
		if err != nil {
			return err
		}
		defer benchmark.StartServer(benchmark.ServerInfo{Type: "protobuf", Listener: ln})()
		if _, err := fmt.Fprintln(w, ln.Addr()); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	case *listen == "" && fs.NArg() == 1:
		res, err := l.run(ctx, n, fs.Arg(0))
		if err != nil {
			return err
		}
		return json.NewEncoder(w).Encode(res)
	}
	return errUsage
}
