// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"purerdma/internal/apptest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/internal/vmtest"
	"purerdma/stream"
)

// TestTLS runs crypto/tls on the fake kernels.
func TestTLS(t *testing.T) { onFakes(t, exchangeTLS) }

// TestVMTLS runs crypto/tls between two devices.
func TestVMTLS(t *testing.T) {
	vmtest.Need(t)
	exchangeTLS(t, inVM)
}

// exchangeTLS has a server echo data over TLS 1.3, and ends the stream of the client.
func exchangeTLS(t *testing.T, n apptest.Network) {
	ts := httptest.NewTLSServer(nil) // for its certificate
	serverConfig := &tls.Config{Certificates: ts.TLS.Certificates, MinVersion: tls.VersionTLS13}
	clientConfig := ts.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	clientConfig.ServerName = "example.com"
	ts.Close()

	n.Run(t, func(ln net.Listener) func() {
		return serveConn(t, ln, func(c net.Conn) {
			server := tls.Server(c, serverConfig)
			_, err := io.Copy(server, server)
			if err = errors.Join(err, server.CloseWrite()); err != nil {
				t.Errorf("server: %v", err)
			}
		})
	}, func(d *stream.Dialer, address string) {
		callTLS(t, n, tls.Client(connect(t, d, address), clientConfig))
	})
}

// callTLS is the client.
func callTLS(t *testing.T, n apptest.Network, client *tls.Conn) {
	defer client.Close()
	if err := client.HandshakeContext(streamconntest.Deadline(t)); err != nil {
		t.Fatalf("HandshakeContext: %v", err)
	}
	if v := client.ConnectionState().Version; v != tls.VersionTLS13 {
		t.Errorf("version = %s, want TLS 1.3", tls.VersionName(v))
	}
	const size = 4 << 20
	want, _ := io.ReadAll(streamconntest.Random(1, size))
	n.Check(t, 2*size, func() {
		client.SetDeadline(time.Now().Add(streamconntest.Limit))
		go func() {
			if n, err := client.Write(want); err != nil {
				t.Errorf("Write() = %d, %v, want %d bytes", n, err, size)
			}
		}()
		got := make([]byte, size)
		if n, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("ReadFull() = %d, %v, want the %d bytes that were written", n, err, size)
		}
	})
	client.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read() after the deadline = %v, want %v", err, os.ErrDeadlineExceeded)
	}
	client.SetReadDeadline(time.Now().Add(streamconntest.Limit))
	if err := client.CloseWrite(); err != nil {
		t.Errorf("CloseWrite: %v", err)
	}
	if n, err := client.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("Read() after both ends = %d, %v, want %v", n, err, io.EOF)
	}
}
