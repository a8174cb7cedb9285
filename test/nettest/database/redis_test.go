// SPDX-License-Identifier: Apache-2.0

package database

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"purerdma/internal/apptest"
	"purerdma/internal/vmtest"
	"purerdma/stream"
)

// TestRedis runs the cases of Redis on fake devices. It needs a redis-server on this machine.
func TestRedis(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip(err)
	}
	apptest.OnFakes(t, stream.Options{}, func(t *testing.T, n apptest.Network) { runRedis(t, n, false) })
}

// TestVMRedis runs the cases of Redis between two devices, with and without TLS.
func TestVMRedis(t *testing.T) {
	vmtest.Need(t)
	t.Run("plain", func(t *testing.T) { runRedis(t, apptest.InVM(stream.Options{}), false) })
	t.Run("TLS", func(t *testing.T) { runRedis(t, apptest.InVM(stream.Options{}), true) })
}

// runRedis runs the cases of Redis.
func runRedis(t *testing.T, n apptest.Network, secure bool) {
	n.Run(t, func(ln net.Listener) func() { return serveRedis(t, n, ln, secure) }, func(d *stream.Dialer, address string) {
		c := redisTest{address: address, dialer: d}
		if secure {
			c.tls = clientTLS()
		}
		n.Check(t, redisBytes, func() {
			for _, tc := range redisCases {
				t.Run(tc.name, func(t *testing.T) { tc.run(t, &c) })
			}
		})
	})
}

// serveRedis starts a Redis server behind ln.
func serveRedis(t *testing.T, n apptest.Network, ln net.Listener, secure bool) (stop func()) {
	dir := directory(t)
	network, address := "unix", filepath.Join(dir, "socket")
	args := []string{"--dir", dir, "--save", "", "--unixsocket", address}
	port := "0"
	if apart(n) {
		network, address = "tcp", "127.0.0.1:6379"
		args = append(args, "--bind", "127.0.0.1")
		port = "6379"
	}
	if secure {
		cert, key := writeCertificate(t, dir)
		args = append(args, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no")
		port = "0"
	}
	s := startServer(t, n, "redis-server", append(args, "--port", port)...)
	stopRelay := apptest.StartRelay(t, ln, func(net.Conn) (net.Conn, error) { return s.dial(network, address) })
	return func() {
		stopRelay()
		s.stop(syscall.SIGTERM)
	}
}

// redisTest makes clients of Redis.
type redisTest struct {
	address string
	dialer  *stream.Dialer
	tls     *tls.Config // nil without TLS
}

// client returns a client with a pool of connections. The test closes it at its end.
func (c *redisTest) client(t *testing.T, change ...func(*redis.Options)) *redis.Client {
	options := redisOptions(c.dialer, c.address)
	if c.tls != nil {
		options = secureRedisOptions(c.dialer, c.address, c.tls)
	}
	options.PoolSize, options.ContextTimeoutEnabled = poolSize, true
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = limit, limit, limit
	for _, f := range change {
		f(options)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

// noRetries makes a client report the failure of a connection.
func noRetries(o *redis.Options) { o.MaxRetries = -1 }

var redisCases = []struct {
	name string
	run  func(t *testing.T, c *redisTest)
}{
	{"pool", redisPool},
	{"pipeline", redisPipeline},
	{"publish and subscribe", redisPublish},
	{"blocking command", redisBlocking},
	{"deadline", redisDeadline},
	{"close", redisClose},
	{"connections that the server closes", redisReconnect},
}

// redisBytes is a lower bound of the bytes that the cases transfer.
const redisBytes = 2 * poolBytes

// redisPool sets and gets values by more goroutines than the pool has connections.
func redisPool(t *testing.T, c *redisTest) {
	client := c.client(t)
	usePool(func(i, size int) {
		key, want := fmt.Sprint("pool ", i, size), content(i, size)
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Errorf("Ping: %v", err)
		}
		if err := client.Set(t.Context(), key, want, 0).Err(); err != nil {
			t.Errorf("Set(%q): %v", key, err)
		}
		if got, err := client.Get(t.Context(), key).Bytes(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("Get(%q) = %d bytes, %v, want the %d bytes that were set", key, len(got), err, size)
		}
	})
	if got := client.PoolStats().TotalConns; got == 0 || got > poolSize {
		t.Errorf("PoolStats().TotalConns = %d, want 1 to %d", got, poolSize)
	}
}

// redisPipeline sends many commands before it reads their answers.
func redisPipeline(t *testing.T, c *redisTest) {
	client := c.client(t)
	const n = 200
	gets := make([]*redis.StringCmd, n)
	if _, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range n {
			key := fmt.Sprint("pipeline ", i)
			p.Set(t.Context(), key, content(i, 10*i), 0)
			gets[i] = p.Get(t.Context(), key)
		}
		return nil
	}); err != nil {
		t.Fatalf("Pipelined: %v", err)
	}
	for i, get := range gets {
		if got, err := get.Bytes(); err != nil || !bytes.Equal(got, content(i, 10*i)) {
			t.Errorf("Get(%d) = %d bytes, %v, want the %d bytes that were set", i, len(got), err, 10*i)
		}
	}
	var last *redis.IntCmd
	if _, err := client.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		for range n {
			last = p.Incr(t.Context(), "transaction")
		}
		return nil
	}); err != nil || last.Val() != n {
		t.Errorf("TxPipelined() = %d, %v, want %d", last.Val(), err, n)
	}
}

// redisPublish receives messages in the order in which they were published.
func redisPublish(t *testing.T, c *redisTest) {
	client := c.client(t)
	sub := client.Subscribe(t.Context(), "channel")
	defer sub.Close()
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatalf("Receive: %v", err)
	}
	const n = 100
	var publisher sync.WaitGroup
	defer publisher.Wait()
	publisher.Go(func() {
		for i := range n {
			if err := client.Publish(t.Context(), "channel", content(i, 100*i)).Err(); err != nil {
				t.Errorf("Publish(%d): %v", i, err)
			}
		}
	})
	for i := range n {
		m, err := sub.ReceiveMessage(t.Context())
		if err != nil {
			t.Errorf("ReceiveMessage(): %v", err)
			return
		}
		if m.Payload != string(content(i, 100*i)) {
			t.Errorf("ReceiveMessage() = %d bytes, want message %d with %d bytes", len(m.Payload), i, 100*i)
		}
	}
}

// redisBlocking waits for an element that comes later.
func redisBlocking(t *testing.T, c *redisTest) {
	client := c.client(t)
	blocked := blockingPop(t, client, t.Context())
	if err := client.LPush(t.Context(), "list", "element").Err(); err != nil {
		t.Errorf("LPush: %v", err)
	}
	if r := <-blocked; r.err != nil || len(r.values) != 2 || r.values[1] != "element" {
		t.Errorf("BLPop() = %q, %v, want the element", r.values, r.err)
	}
}

// popResult is the result of BLPop.
type popResult struct {
	values []string
	err    error
}

// blockingPop calls BLPop of the client without a timeout, and waits until the server blocks it.
func blockingPop(t *testing.T, client *redis.Client, ctx context.Context) <-chan popResult {
	t.Helper()
	result := make(chan popResult, 1)
	go func() {
		values, err := client.BLPop(ctx, 0, "list").Result()
		result <- popResult{values, err}
	}()
	waitBlocked(t, client, 1)
	return result
}

// waitBlocked waits until the server blocks a number of clients.
func waitBlocked(t *testing.T, client *redis.Client, want int) {
	t.Helper()
	waitUntil(t, func() (string, bool) {
		info, err := client.Info(t.Context(), "clients").Result()
		return fmt.Sprintf("Info() = %s, %v, want %d blocked clients", info, err, want), strings.Contains(info, fmt.Sprintf("blocked_clients:%d\r\n", want))
	})
}

// redisDeadline ends a blocked command by a deadline.
func redisDeadline(t *testing.T, c *redisTest) {
	client := c.client(t, noRetries)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := client.BLPop(ctx, 0, "list").Err(); !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("BLPop() = %v, want an error of the deadline", err)
	}
	waitBlocked(t, client, 0)
}

// redisClose ends a blocked command by closing its client. go-redis does not interrupt commands when their context is
// cancelled.
func redisClose(t *testing.T, c *redisTest) {
	client := c.client(t, noRetries)
	blocked := blockingPop(t, client, t.Context())
	if err := client.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if r := <-blocked; r.err == nil {
		t.Errorf("BLPop() = %q, want an error after Close", r.values)
	}
	waitBlocked(t, c.client(t), 0)
}

// redisReconnect continues after the server has closed all connections. The connection of a blocked command fails. The
// client replaces idle connections without an error.
func redisReconnect(t *testing.T, c *redisTest) {
	client, killer := c.client(t), c.client(t)
	blocked := blockingPop(t, c.client(t, noRetries), t.Context())
	old := redisConns(t, client)
	if err := killer.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		t.Fatalf("ClientKillByFilter: %v", err)
	}
	if r := <-blocked; !errors.Is(r.err, io.EOF) {
		t.Errorf("BLPop() = %q, %v, want %v", r.values, r.err, io.EOF)
	}
	for range poolSize { // the client tries as many idle connections as it has
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Errorf("Ping() after the server has closed all connections: %v", err)
		}
	}
	for id := range redisConns(t, client) {
		if old[id] {
			t.Errorf("ClientID() = %d after the server has closed this connection, want another one", id)
		}
	}
}

// redisConns uses all connections of a client at the same time, and returns their IDs in the server.
func redisConns(t *testing.T, client *redis.Client) map[int64]bool {
	t.Helper()
	ids := map[int64]bool{}
	for range poolSize {
		conn := client.Conn()
		defer conn.Close()
		id, err := conn.ClientID(t.Context()).Result()
		if err != nil {
			t.Fatalf("ClientID: %v", err)
		}
		ids[id] = true
	}
	if len(ids) != poolSize {
		t.Errorf("ClientID() of %d connections = %v, want different ones", poolSize, ids)
	}
	return ids
}
