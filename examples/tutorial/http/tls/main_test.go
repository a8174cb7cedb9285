// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"purerdma/internal/vmtest"
)

const want = "HTTP/2.0 200 OK, 1048576 bytes\n"

// TestRun serves the page over RDMA in the micro-VM, and fetches it. The counters of the devices must count
// the page, and no TCP segment may be sent.
func TestRun(t *testing.T) {
	out := withServer(t, "server", func(fetch func()) { vmtest.OverRDMA(t, size, fetch) })
	if out != want {
		t.Errorf("output of fetch = %q, want %q", out, want)
	}
}

// TestFallback serves the page over TCP only. The client connects over TCP.
func TestFallback(t *testing.T) {
	out := withServer(t, "tcp", func(fetch func()) { fetch() })
	if out != want {
		t.Errorf("output of fetch = %q, want %q", out, want)
	}
}

// withServer serves the page in a role, and passes a function that fetches it to run. It returns the output of the
// client.
func withServer(t *testing.T, role string, run func(fetch func())) string {
	t.Helper()
	vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	vmtest.AnyMemory(t) // the listener registers more than siw allows by default
	t.Chdir(t.TempDir())
	writeCertificate(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ln, err := listen(ctx, role)
	if err != nil {
		t.Fatalf("listen(%q): %v", role, err)
	}
	served := make(chan error, 1)
	go func() { served <- serve(ln) }()
	var out strings.Builder
	run(func() {
		if err := fetch(ctx, &out); err != nil {
			t.Errorf("fetch: %v", err)
		}
	})
	ln.Close()
	if err := <-served; !errors.Is(err, net.ErrClosed) {
		t.Errorf("serve() = %v, want %v", err, net.ErrClosed)
	}
	return out.String()
}

// writeCertificate writes a certificate of the server and its key, as generate_cert.go of crypto/tls does.
func writeCertificate(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("ecdsa.GenerateKey: %v", err)
	}
	host, _, _ := net.SplitHostPort(address)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.ParseIP(host)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatalf("x509.CreateCertificate: %v", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatalf("x509.MarshalPKCS8PrivateKey: %v", err)
	}
	for file, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: cert},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
}
