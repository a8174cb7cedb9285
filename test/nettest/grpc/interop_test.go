// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"purerdma/internal/apptest"
	"purerdma/internal/longtest"
	"purerdma/stream"
)

// cases has the test cases of gRPC's client (interop/client), under their names.
var cases = []struct {
	name string
	run  func(context.Context, *channel)
}{
	{"empty_unary", func(ctx context.Context, c *channel) { interop.DoEmptyUnaryCall(ctx, c.service) }},
	{"large_unary", func(ctx context.Context, c *channel) { interop.DoLargeUnaryCall(ctx, c.service) }},
	{"client_streaming", func(ctx context.Context, c *channel) { interop.DoClientStreaming(ctx, c.service) }},
	{"server_streaming", func(ctx context.Context, c *channel) { interop.DoServerStreaming(ctx, c.service) }},
	{"ping_pong", func(ctx context.Context, c *channel) { interop.DoPingPong(ctx, c.service) }},
	{"empty_stream", func(ctx context.Context, c *channel) { interop.DoEmptyStream(ctx, c.service) }},
	{"timeout_on_sleeping_server", func(ctx context.Context, c *channel) { interop.DoTimeoutOnSleepingServer(ctx, c.service) }},
	{"cancel_after_begin", func(ctx context.Context, c *channel) { interop.DoCancelAfterBegin(ctx, c.service) }},
	{"cancel_after_first_response", func(ctx context.Context, c *channel) { interop.DoCancelAfterFirstResponse(ctx, c.service) }},
	{"status_code_and_message", func(ctx context.Context, c *channel) { interop.DoStatusCodeAndMessage(ctx, c.service) }},
	{"special_status_message", func(ctx context.Context, c *channel) { interop.DoSpecialStatusMessage(ctx, c.service) }},
	{"custom_metadata", func(ctx context.Context, c *channel) { interop.DoCustomMetadata(ctx, c.service) }},
	{"unimplemented_method", func(ctx context.Context, c *channel) { interop.DoUnimplementedMethod(ctx, c.conn) }},
	{"unimplemented_service", func(ctx context.Context, c *channel) {
		interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(c.conn))
	}},
	{"rpc_soak", func(ctx context.Context, c *channel) {
		c.soak(ctx, rpcSoak(), func() (*grpc.ClientConn, func()) { return c.conn, func() {} })
	}},
	{"channel_soak", func(ctx context.Context, c *channel) {
		c.soak(ctx, channelSoak(), func() (*grpc.ClientConn, func()) {
			conn := c.dial()
			return conn, func() { conn.Close() }
		})
	}},
}

// channel is a client of gRPC's test service.
type channel struct {
	t       *testing.T
	target  string
	options []grpc.DialOption
	conn    *grpc.ClientConn
	service testgrpc.TestServiceClient
}

// dial makes another connection.
func (c *channel) dial() *grpc.ClientConn {
	conn, err := grpc.NewClient(c.target, c.options...)
	if err != nil {
		c.t.Fatalf("NewClient(%q): %v", c.target, err)
	}
	return conn
}

// Sizes of the messages of a soak, the defaults of gRPC's client.
const (
	soakRequest  = 271828
	soakResponse = 314159
)

// soakLimit bounds a call and a soak, so that a soak which hangs reports its calls. It is no measure of speed: 1000 calls
// under the race detector take minutes on a busy machine.
const soakLimit = 50 * time.Minute

// rpcSoak returns the number of calls on one connection.
func rpcSoak() int {
	if longtest.Enabled() {
		return 1000
	}
	return 20
}

// channelSoak returns the number of calls on connections of their own, which all stay open until the last
// call has ended.
func channelSoak() int {
	if longtest.Enabled() {
		return 200
	}
	return 20
}

// soak makes a number of calls on connections that next returns.
func (c *channel) soak(ctx context.Context, calls int, next func() (*grpc.ClientConn, func())) {
	interop.DoSoakTest(ctx, interop.SoakTestConfig{
		RequestSize: soakRequest, ResponseSize: soakResponse,
		PerIterationMaxAcceptableLatency: soakLimit,
		OverallTimeout:                   soakLimit,
		ServerAddr:                       c.target,
		NumWorkers:                       4,
		Iterations:                       calls,
		ChannelForTest:                   next,
	})
}

// runCases runs all cases with and without TLS.
func runCases(t *testing.T, n apptest.Network) {
	for _, secure := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "TLS"}[secure], func(t *testing.T) {
			serverCreds, clientCreds := insecure.NewCredentials(), insecure.NewCredentials()
			if secure {
				serverCreds, clientCreds = tlsCredentials()
			}
			n.Run(t, func(ln net.Listener) func() { return serve(t, ln, serverCreds) }, func(d *stream.Dialer, address string) {
				c := &channel{t: t, target: "passthrough:///" + address, options: []grpc.DialOption{
					grpc.WithTransportCredentials(clientCreds),
					grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
						return d.DialContext(ctx, "tcp", address)
					}),
				}}
				c.conn = c.dial()
				defer c.conn.Close()
				c.service = testgrpc.NewTestServiceClient(c.conn)
				n.Check(t, int64(rpcSoak()+channelSoak())*(soakRequest+soakResponse), func() {
					for _, tc := range cases {
						t.Run(tc.name, func(t *testing.T) {
							failures.use(t)
							tc.run(t.Context(), c)
						})
					}
				})
			})
		})
	}
}

// serve starts gRPC's server.
func serve(t *testing.T, ln net.Listener, creds credentials.TransportCredentials) (stop func()) {
	server := grpc.NewServer(grpc.Creds(creds))
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	return func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("Serve() = %v, want nil after Stop", err)
		}
	}
}

// tlsCredentials returns credentials with the certificate of net/http/httptest.
func tlsCredentials() (server, client credentials.TransportCredentials) {
	ts := httptest.NewTLSServer(nil)
	defer ts.Close()
	config := ts.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName = "example.com" // the name in the certificate
	return credentials.NewTLS(&tls.Config{Certificates: ts.TLS.Certificates}), credentials.NewTLS(config)
}
