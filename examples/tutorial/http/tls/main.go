// SPDX-License-Identifier: Apache-2.0

// Web serves a page by HTTP/2 over TLS over RDMA, and fetches it. With the argument tcp the server uses TCP, and
// the client falls back to it. It is the third program of the tutorial "HTTP over RDMA".
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"

	"purerdma/cm"
	"purerdma/stream"
)

const address = "10.8.0.1:8443"

// size is the length of the page in bytes.
const size = 1 << 20

func main() {
	role := "server"
	if len(os.Args) > 1 {
		role = os.Args[1]
	}
	if role == "client" {
		if err := fetch(context.Background(), os.Stdout); err != nil {
			log.Fatal(err)
		}
		return
	}
	ln, err := listen(context.Background(), role)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(serve(ln))
}

// listen returns the server's listener.
func listen(ctx context.Context, role string) (net.Listener, error) {
	if role == "tcp" {
		return new(net.ListenConfig).Listen(ctx, "tcp", address)
	}
	return stream.Listen(ctx, "tcp", address)
}

// serve answers requests until the listener is closed.
func serve(ln net.Listener) error {
	return http.ServeTLS(ln, http.HandlerFunc(sendPage), "cert.pem", "key.pem")
}

// sendPage answers a request with the page.
func sendPage(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, size)) }

// newTransport returns the client's transport. It trusts the server's certificate only.
func newTransport() (*http.Transport, error) {
	cert, err := os.ReadFile("cert.pem")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	return &http.Transport{
		DialContext:       dial,
		TLSClientConfig:   &tls.Config{RootCAs: roots},
		ForceAttemptHTTP2: true, // with a DialContext the default is HTTP/1.1
	}, nil
}

// dial connects over RDMA. If that fails, it connects over TCP and logs the reason.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	local := cm.AddrFrom(netip.MustParseAddrPort("10.8.1.2:0"))
	dialer := &stream.Dialer{CM: cm.Dialer{LocalAddr: local}, Fallback: &net.Dialer{}}
	conn, err := dialer.DialContext(ctx, network, address)
	if tcp, ok := conn.(*stream.TCPConn); ok {
		log.Printf("over TCP: %v", tcp.Cause)
	}
	return conn, err
}

// fetch gets the page and prints its length.
func fetch(ctx context.Context, w io.Writer) error {
	transport, err := newTransport()
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	req, err := http.NewRequestWithContext(ctx, "GET", "https://"+address, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s %s, %d bytes\n", res.Proto, res.Status, n)
	return err
}
