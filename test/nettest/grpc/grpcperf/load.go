// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/benchmark"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// load describes the calls of a client.
type load struct {
	rpcType           string // "unary" or "streaming"
	request, response int    // bytes
	parallel          int    // calls at a time on each connection
	connections       int
	warmUp, calls     int
}

// result has the results of a client.
type result struct {
	Calls   int     `json:"calls"`
	Seconds float64 `json:"seconds"`
	QPS     float64 `json:"qps"`
	Latency latency `json:"latency_us"`
}

// latency has the percentiles of the times of the calls, in microseconds.
type latency struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
}

// bufferSize is the size of the buffers of gRPC's benchmark/client, in bytes.
const bufferSize = 128 << 10

// run makes the connections and the calls.
func (l *load) run(ctx context.Context, n network, server string) (result, error) {
	if l.request < 0 || l.response < 0 || l.parallel < 1 || l.connections < 1 || l.warmUp < 0 || l.calls < 1 {
		return result{}, fmt.Errorf("numbers out of range: %+v", *l)
	}
	var callers []func() error
	for range l.connections {
		conn := benchmark.NewClientConnWithContext(ctx, "passthrough:///"+server,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithWriteBufferSize(bufferSize), grpc.WithReadBufferSize(bufferSize),
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return n.dial(ctx, address) }))
		defer conn.Close()
		for range l.parallel {
			call, err := l.caller(ctx, testgrpc.NewBenchmarkServiceClient(conn))
			if err != nil {
				return result{}, err
			}
			callers = append(callers, call)
		}
	}
	if _, err := together(callers, l.warmUp); err != nil {
		return result{}, err
	}
	start := time.Now()
	each, err := together(callers, l.calls)
	took := time.Since(start).Seconds()
	if err != nil {
		return result{}, err
	}
	slices.Sort(each)
	at := func(percent int) float64 { return float64(each[(len(each)-1)*percent/100].Nanoseconds()) / 1e3 }
	return result{Calls: len(each), Seconds: took, QPS: float64(len(each)) / took, Latency: latency{at(50), at(90), at(99)}}, nil
}

// caller returns a function that makes a call and checks the response.
func (l *load) caller(ctx context.Context, client testgrpc.BenchmarkServiceClient) (func() error, error) {
	req := &testgrpc.SimpleRequest{
		ResponseType: testgrpc.PayloadType_COMPRESSABLE,
		ResponseSize: int32(l.response),
		Payload:      benchmark.NewPayload(testgrpc.PayloadType_COMPRESSABLE, l.request),
	}
	check := func(res *testgrpc.SimpleResponse, err error) error {
		if err != nil {
			return fmt.Errorf("%s call: %w", l.rpcType, err)
		}
		if n := len(res.GetPayload().GetBody()); n != l.response {
			return fmt.Errorf("%s call: the response has %d bytes, want %d", l.rpcType, n, l.response)
		}
		return nil
	}
	switch l.rpcType {
	case "unary":
		return func() error { return check(client.UnaryCall(ctx, req)) }, nil
	case "streaming":
		stream, err := client.StreamingCall(ctx)
		if err != nil {
			return nil, err
		}
		return func() error {
			if err := stream.Send(req); err != nil {
				return fmt.Errorf("%s call: %w", l.rpcType, err)
			}
			return check(stream.Recv())
		}, nil
	}
	return nil, fmt.Errorf("-rpc_type %s: want unary or streaming", l.rpcType)
}

// together makes a number of calls, with a goroutine for each caller, and returns their times.
func together(callers []func() error, calls int) ([]time.Duration, error) {
	var left atomic.Int64
	left.Store(int64(calls))
	times, errs := make([][]time.Duration, len(callers)), make([]error, len(callers))
	var all sync.WaitGroup
	for i, call := range callers {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				start := time.Now()
				if errs[i] = call(); errs[i] != nil {
					return
				}
				times[i] = append(times[i], time.Since(start))
			}
		})
	}
	all.Wait()
	return slices.Concat(times...), errors.Join(errs...)
}
