// SPDX-License-Identifier: Apache-2.0

package database

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"purerdma/internal/apptest"
	"purerdma/internal/vmtest"
	"purerdma/stream"
)

// TestPostgres runs the cases of PostgreSQL on fake devices. It needs a PostgreSQL server on this machine.
func TestPostgres(t *testing.T) {
	if _, err := postgresProgram("initdb"); err != nil {
		t.Skip(err)
	}
	apptest.OnFakes(t, stream.Options{}, runPostgres)
}

// TestVMPostgres runs the cases of PostgreSQL between two devices, with and without TLS.
func TestVMPostgres(t *testing.T) {
	vmtest.Need(t)
	runPostgres(t, apptest.InVM(stream.Options{}))
}

// runPostgres runs the cases of PostgreSQL.
func runPostgres(t *testing.T, n apptest.Network) {
	n.Run(t, func(ln net.Listener) func() { return servePostgres(t, n, ln) }, func(d *stream.Dialer, address string) {
		for _, secure := range []bool{false, true} {
			if secure && !apart(n) {
				continue // PostgreSQL has no TLS on Unix sockets
			}
			t.Run(map[bool]string{false: "plain", true: "TLS"}[secure], func(t *testing.T) {
				c := postgresTest{address: address, dialer: d, secure: secure}
				n.Check(t, postgresBytes, func() {
					for _, tc := range postgresCases {
						t.Run(tc.name, func(t *testing.T) { tc.run(t, &c) })
					}
				})
			})
		}
	})
}

// postgresProgram returns the path of a program. Debian has a directory for each version of the server.
func postgresProgram(name string) (string, error) {
	pattern := filepath.Join("/usr/lib/postgresql/*/bin", name)
	found, err := filepath.Glob(pattern)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s: %w", pattern, os.ErrNotExist)
	}
	if err != nil {
		return "", err
	}
	return found[len(found)-1], nil
}

// postgresPort is the port of the server. The name of its Unix socket contains it.
const postgresPort = "5432"

// servePostgres starts a PostgreSQL server with an empty database behind ln.
func servePostgres(t *testing.T, n apptest.Network, ln net.Listener) (stop func()) {
	initdb, err := postgresProgram("initdb")
	if err != nil {
		t.Fatalf("postgresProgram(initdb): %v", err)
	}
	dir := directory(t)
	data := filepath.Join(dir, "data")
	if out, err := command(initdb, "-D", data, "-U", "postgres", "--auth=trust", "--locale=C", "--encoding=UTF8", "--no-sync", "--wal-segsize=1").CombinedOutput(); err != nil {
		t.Fatalf("%s: %v, output:\n%s", initdb, err, out)
	}
	settings := []string{
		"unix_socket_directories=" + dir, "port=" + postgresPort, "listen_addresses=",
		"fsync=off", "jit=off", "shared_buffers=16MB", "max_connections=30",
	}
	network, address := "unix", filepath.Join(dir, ".s.PGSQL."+postgresPort)
	if apart(n) {
		network, address = "tcp", "127.0.0.1:"+postgresPort
		cert, key := writeCertificate(t, dir)
		settings = append(settings, "listen_addresses=127.0.0.1", "ssl=on", "ssl_cert_file="+cert, "ssl_key_file="+key)
	}
	args := []string{"-D", data}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	s := startServer(t, n, filepath.Join(filepath.Dir(initdb), "postgres"), args...)
	stopRelay := apptest.StartRelay(t, ln, func(net.Conn) (net.Conn, error) { return s.dial(network, address) })
	return func() {
		stopRelay()
		s.stop(syscall.SIGINT) // ends all sessions
	}
}

// postgresTest makes clients of PostgreSQL.
type postgresTest struct {
	address string
	dialer  *stream.Dialer
	secure  bool
}

// pool returns a pool of connections. The test closes it at its end.
func (c *postgresTest) pool(t *testing.T, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	url := fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable&pool_max_conns=%d", certificateName, poolSize)
	config, err := poolConfig(c.dialer, url)
	if err != nil {
		t.Fatalf("poolConfig(%q): %v", url, err)
	}
	config.ConnConfig.LookupFunc = func(_ context.Context, host string) ([]string, error) {
		if host != certificateName {
			return nil, fmt.Errorf("look up %s: unknown host", host)
		}
		return []string{c.address}, nil
	}
	if c.secure {
		config.ConnConfig.TLSConfig = clientTLS()
	}
	for _, f := range change {
		f(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("NewWithConfig: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

var postgresCases = []struct {
	name string
	run  func(t *testing.T, c *postgresTest)
}{
	{"encryption", postgresEncryption},
	{"pool", postgresPool},
	{"batch", postgresBatch},
	{"many rows", postgresRows},
	{"listen and notify", postgresNotify},
	{"transactions", postgresTransactions},
	{"copy", postgresCopy},
	{"deadline", postgresDeadline},
	{"cancelled query", postgresCancel},
	{"cancelled query without its connection", postgresCancelRequest},
	{"connections that the server closes", postgresReconnect},
}

// postgresBytes is a lower bound of the bytes that the cases transfer.
const postgresBytes = 2*poolBytes + copyRows*copySize

// postgresEncryption checks that the server uses TLS if the client does.
func postgresEncryption(t *testing.T, c *postgresTest) {
	var got bool
	if err := c.pool(t).QueryRow(t.Context(), "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").Scan(&got); err != nil || got != c.secure {
		t.Errorf("QueryRow(ssl) = %v, %v, want %v", got, err, c.secure)
	}
}

// postgresPool sends values and gets them back, by more goroutines than the pool has connections.
func postgresPool(t *testing.T, c *postgresTest) {
	pool := c.pool(t)
	usePool(func(i, size int) {
		if err := pool.Ping(t.Context()); err != nil {
			t.Errorf("Ping: %v", err)
		}
		var got []byte
		want := content(i, size)
		if err := pool.QueryRow(t.Context(), "SELECT $1::bytea", want).Scan(&got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("QueryRow(%d bytes) = %d bytes, %v, want the same bytes", size, len(got), err)
		}
	})
	if got := pool.Stat().TotalConns(); got == 0 || got > poolSize {
		t.Errorf("Stat().TotalConns() = %d, want 1 to %d", got, poolSize)
	}
}

// postgresBatch sends many queries before it reads their answers.
func postgresBatch(t *testing.T, c *postgresTest) {
	var batch pgx.Batch
	const n = 200
	for i := range n {
		batch.Queue("SELECT $1::bytea", content(i, 10*i))
	}
	results := c.pool(t).SendBatch(t.Context(), &batch)
	for i := range n {
		var got []byte
		if err := results.QueryRow().Scan(&got); err != nil || !bytes.Equal(got, content(i, 10*i)) {
			t.Errorf("QueryRow(%d) = %d bytes, %v, want the %d bytes that were sent", i, len(got), err, 10*i)
		}
	}
	if err := results.Close(); err != nil {
		t.Errorf("Close of the results: %v", err)
	}
}

// postgresRows reads many rows of one query.
func postgresRows(t *testing.T, c *postgresTest) {
	const n = 20_000
	rows, err := c.pool(t).Query(t.Context(), "SELECT generate_series(1, $1::int)", n)
	if err != nil {
		t.Fatalf("Query: %v", err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil || len(got) != n {
		t.Fatalf("CollectRows() = %d rows, %v, want %d", len(got), err, n)
	}
	for i, v := range got {
		if v != i+1 {
			t.Fatalf("CollectRows()[%d] = %d, want %d", i, v, i+1)
		}
	}
}

// postgresNotify receives notifications in the order in which they were sent.
func postgresNotify(t *testing.T, c *postgresTest) {
	pool := c.pool(t)
	conn := acquire(t, pool)
	if _, err := conn.Exec(t.Context(), "LISTEN channel"); err != nil {
		t.Fatalf("Exec(LISTEN): %v", err)
	}
	const n = 50
	for i := range n {
		if _, err := pool.Exec(t.Context(), "SELECT pg_notify('channel', $1)", fmt.Sprintf("%x", content(i, 50*i))); err != nil {
			t.Fatalf("Exec(pg_notify): %v", err)
		}
	}
	for i := range n {
		got, err := conn.Conn().WaitForNotification(t.Context())
		if err != nil {
			t.Fatalf("WaitForNotification: %v", err)
		}
		if want := fmt.Sprintf("%x", content(i, 50*i)); got.Payload != want {
			t.Errorf("WaitForNotification() = %d bytes, want message %d with %d bytes", len(got.Payload), i, len(want))
		}
	}
}

// acquire takes a connection of a pool until the end of the test.
func acquire(t *testing.T, pool *pgxpool.Pool) *pgxpool.Conn {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	t.Cleanup(conn.Release)
	return conn
}

// createTable creates a table until the end of the test.
func createTable(t *testing.T, pool *pgxpool.Pool, name, columns string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), "CREATE TABLE "+name+" ("+columns+")"); err != nil {
		t.Fatalf("Exec(CREATE TABLE): %v", err)
	}
	t.Cleanup(func() {
		if _, err := pool.Exec(context.Background(), "DROP TABLE "+name); err != nil {
			t.Errorf("Exec(DROP TABLE): %v", err)
		}
	})
}

// postgresTransactions rolls a transaction back, and commits another one.
func postgresTransactions(t *testing.T, c *postgresTest) {
	pool := c.pool(t)
	createTable(t, pool, "numbers", "n int")
	abort := errors.New("abort")
	for n, want := range []error{abort, nil} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "INSERT INTO numbers VALUES ($1)", n); err != nil {
				return err
			}
			return want
		})
		if err != want {
			t.Errorf("BeginFunc(%d) = %v, want %v", n, err, want)
		}
	}
	rows, err := pool.Query(t.Context(), "SELECT n FROM numbers")
	if err != nil {
		t.Fatalf("Query: %v", err)
	}
	if got, err := pgx.CollectRows(rows, pgx.RowTo[int]); err != nil || !slices.Equal(got, []int{1}) {
		t.Errorf("CollectRows() = %v, %v, want only the committed 1", got, err)
	}
}

// The number of rows that are copied, and the size of each in bytes.
const (
	copyRows = 4096
	copySize = 1 << 10
)

// postgresCopy copies rows into a table and out of it.
func postgresCopy(t *testing.T, c *postgresTest) {
	pool := c.pool(t)
	createTable(t, pool, "copied", "id int, data bytea")
	n, err := pool.CopyFrom(t.Context(), pgx.Identifier{"copied"}, []string{"id", "data"}, pgx.CopyFromSlice(copyRows, func(i int) ([]any, error) {
		return []any{i, content(i, copySize)}, nil
	}))
	if err != nil || n != copyRows {
		t.Fatalf("CopyFrom() = %d, %v, want %d rows", n, err, copyRows)
	}
	var got, want bytes.Buffer
	if _, err := acquire(t, pool).Conn().PgConn().CopyTo(t.Context(), &got, "COPY (SELECT id, encode(data, 'hex') FROM copied ORDER BY id) TO STDOUT"); err != nil {
		t.Fatalf("CopyTo: %v", err)
	}
	for i := range copyRows {
		fmt.Fprintf(&want, "%d\t%x\n", i, content(i, copySize))
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("CopyTo() wrote %d bytes, want the %d bytes of the rows", got.Len(), want.Len())
	}
}

// sleep is a query that lasts longer than any test.
const sleep = "SELECT pg_sleep(3600)"

// waitSleeping waits until a number of sessions sleeps.
func waitSleeping(t *testing.T, pool *pgxpool.Pool, want int) {
	t.Helper()
	waitUntil(t, func() (string, bool) {
		var got int
		err := pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'").Scan(&got)
		return fmt.Sprintf("QueryRow(sleeping sessions) = %d, %v, want %d", got, err, want), err == nil && got == want
	})
}

// postgresDeadline ends a query by a deadline. pgx sends the request to cancel it on another connection.
func postgresDeadline(t *testing.T, c *postgresTest) {
	pool := c.pool(t)
	conn := acquire(t, pool)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := conn.Exec(ctx, sleep); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Exec() = %v, want %v", err, context.DeadlineExceeded)
	}
	waitSleeping(t, pool, 0)
}

// sleeping starts a query that sleeps, and waits until the server executes it. cancel cancels its context.
func sleeping(t *testing.T, conn *pgxpool.Conn, pool *pgxpool.Pool) (cancel func(), result <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() {
		_, err := conn.Exec(ctx, sleep)
		done <- err
	}()
	waitSleeping(t, pool, 1)
	return cancel, done
}

// postgresCancel cancels a query. pgx closes the connection. It sends the request to cancel the query on another one,
// without which the server would continue it.
func postgresCancel(t *testing.T, c *postgresTest) {
	pool := c.pool(t)
	conn := acquire(t, pool)
	cancel, result := sleeping(t, conn, pool)
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("Exec() = %v, want %v", err, context.Canceled)
	}
	if !conn.Conn().IsClosed() {
		t.Error("IsClosed() = false, want true after a cancelled query")
	}
	waitSleeping(t, pool, 0)
}

// postgresCancelRequest cancels a query and keeps the connection.
func postgresCancelRequest(t *testing.T, c *postgresTest) {
	pool := c.pool(t, func(config *pgxpool.Config) {
		config.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: limit}
		}
	})
	conn := acquire(t, pool)
	cancel, result := sleeping(t, conn, pool)
	cancel()
	if err := <-result; !hasCode(err, "57014") { // query_canceled
		t.Errorf("Exec() = %v, want the error of a cancelled query", err)
	}
	if err := conn.Ping(t.Context()); err != nil {
		t.Errorf("Ping() after a cancelled query: %v", err)
	}
}

// hasCode reports whether the server has returned an error with the code.
func hasCode(err error, code string) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pe.Code == code
}

// postgresReconnect continues after the server has closed all connections of a pool. The connection of a running query
// fails. The pool replaces idle connections without an error.
func postgresReconnect(t *testing.T, c *postgresTest) {
	killer := c.pool(t)
	pool := c.pool(t, func(config *pgxpool.Config) {
		config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true }
	})
	old := sessions(t, pool)
	conn := acquire(t, pool)
	_, result := sleeping(t, conn, killer)
	if _, err := killer.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = ANY($1)", old); err != nil {
		t.Fatalf("Exec(pg_terminate_backend): %v", err)
	}
	if err := <-result; !hasCode(err, "57P01") { // admin_shutdown
		t.Errorf("Exec() = %v, want the error of a terminated session", err)
	}
	conn.Release()
	waitUntil(t, func() (string, bool) {
		var left int
		err := killer.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY($1)", old).Scan(&left)
		return fmt.Sprintf("QueryRow(terminated sessions) = %d, %v, want 0", left, err), err == nil && left == 0
	})
	for _, pid := range sessions(t, pool) {
		if slices.Contains(old, pid) {
			t.Errorf("PID() = %d after the server has ended this session, want another one", pid)
		}
	}
}

// sessions uses all connections of a pool at the same time, and returns the processes of the server.
func sessions(t *testing.T, pool *pgxpool.Pool) (pids []int32) {
	t.Helper()
	for range poolSize {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatalf("Acquire: %v", err)
		}
		defer conn.Release()
		pids = append(pids, int32(conn.Conn().PgConn().PID()))
	}
	return pids
}
