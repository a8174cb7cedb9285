// SPDX-License-Identifier: Apache-2.0

package database

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"purerdma/internal/apptest"
	"purerdma/internal/netns"
)

// limit bounds waits. Only a wait that hangs may take so long.
const limit = 2 * time.Minute

// serverUser is the user that runs the servers if the test runs as root, because PostgreSQL refuses to run as root. Each Debian
// system has this user. PostgreSQL looks the name of its user up.
const serverUser = 65534

// apart reports whether servers run in a network namespace of their own. There they listen on TCP, because they do not
// support TLS on Unix sockets, and the segments are not in the counters of the test. Without a namespace they listen on
// Unix sockets, because other programs may use the ports.
func apart(n apptest.Network) bool { return n.VM }

// server is a process of a database server.
type server struct {
	t     *testing.T
	cmd   *exec.Cmd
	ready chan struct{} // closed when the server accepts connections
	ended chan struct{} // closed at the end of its output
	log   strings.Builder
	// namespace is the path of the server's network namespace, or "" if it is the test's.
	namespace string
}

// startServer starts a server and waits until it accepts connections.
func startServer(t *testing.T, n apptest.Network, path string, args ...string) *server {
	t.Helper()
	s := &server{t: t, cmd: command(path, args...), ready: make(chan struct{}), ended: make(chan struct{})}
	output, w, err := os.Pipe()
	if err != nil {
		t.Fatalf("os.Pipe: %v", err)
	}
	s.cmd.Stdout, s.cmd.Stderr = w, w
	if apart(n) {
		err = startApart(s.cmd)
	} else {
		err = s.cmd.Start()
	}
	w.Close()
	if err != nil {
		output.Close()
		t.Fatalf("start %s: %v", path, err)
	}
	if apart(n) {
		s.namespace = fmt.Sprintf("/proc/%d/ns/net", s.cmd.Process.Pid)
	}
	go s.read(output)
	select {
	case <-s.ready:
		return s
	case <-s.ended:
	case <-time.After(limit):
	}
	s.cmd.Process.Kill()
	<-s.ended
	t.Fatalf("start %s: %v, output:\n%s", path, s.cmd.Wait(), &s.log)
	return nil
}

// read reads the output until its end. The servers print the same line when they are ready.
func (s *server) read(output *os.File) {
	defer close(s.ended)
	defer output.Close()
	ready := false
	for lines := bufio.NewScanner(output); lines.Scan(); {
		fmt.Fprintln(&s.log, lines.Text())
		if !ready && strings.Contains(lines.Text(), "eady to accept connections") {
			ready = true
			close(s.ready)
		}
	}
}

// dial connects to the server.
func (s *server) dial(network, address string) (conn net.Conn, err error) {
	err = netns.Do(s.namespace, func() error {
		conn, err = net.Dial(network, address)
		return err
	})
	return conn, err
}

// stop stops the server by a signal that it handles.
func (s *server) stop(signal os.Signal) {
	s.t.Helper()
	s.cmd.Process.Signal(signal)
	kill := time.AfterFunc(limit, func() { s.cmd.Process.Kill() })
	<-s.ended
	kill.Stop()
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("Wait() of %s = %v, want nil", s.cmd.Path, err)
	}
	if s.t.Failed() {
		s.t.Logf("output of %s:\n%s", s.cmd.Path, &s.log)
	}
}

// command returns a command that runs as an ordinary user.
func command(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: serverUser, Gid: serverUser}}
	}
	return cmd
}

// startApart starts a command in a network namespace of its own, which has only a loopback interface.
func startApart(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // permanently, so that the thread ends with the goroutine
		started <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("unshare the network namespace: %w", err)
			}
			lo, err := netlink.LinkByName("lo")
			if err != nil {
				return fmt.Errorf("find the loopback interface: %w", err)
			}
			if err := netlink.LinkSetUp(lo); err != nil {
				return fmt.Errorf("enable the loopback interface: %w", err)
			}
			return cmd.Start()
		}()
	}()
	return <-started
}

// directory returns a directory of the servers' user. It is not in the temporary directory of the test, which other users may
// be unable to enter. Its path is short enough for Unix sockets.
func directory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "database-")
	if err != nil {
		t.Fatalf("os.MkdirTemp: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	own(t, dir)
	return dir
}

// own makes the servers' user the owner of a file.
func own(t *testing.T, file string) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	if err := os.Chown(file, serverUser, serverUser); err != nil {
		t.Fatalf("os.Chown: %v", err)
	}
}

// writeCertificate writes the certificate of net/http/httptest and its key to a directory of the servers' user.
func writeCertificate(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	ts := httptest.NewTLSServer(nil)
	defer ts.Close()
	c := ts.TLS.Certificates[0]
	secret, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatalf("x509.MarshalPKCS8PrivateKey: %v", err)
	}
	write := func(name, kind string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
		own(t, path)
		return path
	}
	return write("cert.pem", "CERTIFICATE", c.Certificate[0]), write("key.pem", "PRIVATE KEY", secret)
}

// certificateName is a name in the certificate of net/http/httptest.
const certificateName = "example.com"

// clientTLS returns a configuration that accepts the certificate of net/http/httptest.
func clientTLS() *tls.Config {
	ts := httptest.NewTLSServer(nil)
	defer ts.Close()
	config := ts.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName = certificateName
	return config
}
