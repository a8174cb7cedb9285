// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"purerdma/cmd/internal/tool"
)

// start starts a session of the server, and returns the client's connection, the server's output and
// its result.
func start(t *testing.T) (net.Conn, *bytes.Buffer, chan error) {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() { client.Close() })
	var out bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- (&session{ui: tool.NewUI("rcopy", &out, io.Discard), conn: server}).run() }()
	return client, &out, done
}

// TestCopy copies a file through both halves of the program.
func TestCopy(t *testing.T) {
	conn, served, done := start(t)
	dest := filepath.Join(t.TempDir(), "dest")
	want := bytes.Repeat([]byte("0123456789"), 100_000)
	var out bytes.Buffer
	u := tool.NewUI("rcopy", &out, io.Discard)
	if err := open(conn, dest, 0o640); err != nil {
		t.Fatalf("open: %v", err)
	}
	if _, err := transfer(u, conn, bytes.NewReader(want), int64(len(want))); err != nil {
		t.Fatalf("transfer: %v", err)
	}
	if err := closeFile(u, conn); err != nil {
		t.Fatalf("closeFile: %v", err)
	}
	conn.Close()
	if err := <-done; err != io.EOF {
		t.Errorf("run() = %v, want EOF", err)
	}
	if got, err := os.ReadFile(dest); !bytes.Equal(got, want) || err != nil {
		t.Errorf("ReadFile() = %d bytes, %v, want the %d bytes of the source", len(got), err, len(want))
	}
	if got, want := out.String(), "transferring...closing...done\n"; got != want {
		t.Errorf("output of the client = %q, want %q", got, want)
	}
	if got, want := served.String(), "opening: "+dest+", transferring...1000000 bytes...closing...done\n"; got != want {
		t.Errorf("output of the server = %q, want %q", got, want)
	}
}

// TestHostileClient sends bad commands. The server answers with an errno and ends the session.
func TestHostileClient(t *testing.T) {
	for name, tc := range map[string]struct {
		message []byte
		want    syscall.Errno
	}{
		"unknown command":    {header{command: 9, length: headerLen}.append(nil), syscall.EINVAL},
		"write without file": {header{command: cmdWrite, length: headerLen + sizeLen}.append(nil), syscall.EINVAL},
		"missing directory":  {append(header{command: cmdOpen, length: headerLen + 8}.append(nil), "/no/such"...), syscall.ENOENT},
	} {
		t.Run(name, func(t *testing.T) {
			conn, _, done := start(t)
			conn.Write(tc.message)
			if err := readAnswer(conn, tc.message[1]); !errors.Is(err, tc.want) {
				t.Errorf("readAnswer() = %v, want %v", err, tc.want)
			}
			if err := <-done; !errors.Is(err, tc.want) {
				t.Errorf("run() = %v, want %v", err, tc.want)
			}
		})
	}
	conn, _, done := start(t)
	conn.Write(header{version: 1, length: headerLen}.append(nil))
	if err := <-done; err == nil || !strings.Contains(err.Error(), "invalid version 1") {
		t.Errorf("run() with version 1 = %v, want an error", err)
	}
}

// TestHeader checks the layout of a header on a little-endian host.
func TestHeader(t *testing.T) {
	h := header{command: cmdOpen, length: 24, data: 0o100644, id: 1}
	if got, want := hex.EncodeToString(h.append(nil)), "00011800a48100000100000000000000"; got != want {
		t.Errorf("append() = %s, want %s", got, want)
	}
}

func TestParse(t *testing.T) {
	for args, want := range map[string]options{
		"a host":            {source: "a", dest: "a"},
		"a host:b -p 1":     {source: "a", dest: "b"},
		"-p 5":              {},
		"a host:dir/b -p 5": {source: "a", dest: "dir/b"},
	} {
		got, err := parse(strings.Fields(args))
		if err != nil || got.source != want.source || got.dest != want.dest {
			t.Errorf("parse(%q) = %+v, %v, want %+v", args, got, err, want)
		}
	}
	if _, err := parse([]string{"a"}); err == nil {
		t.Error("parse() of a source without a server succeeded, want an error")
	}
}
