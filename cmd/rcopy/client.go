// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"syscall"
	"time"

	"purerdma/cm"
	"purerdma/cmd/internal/tool"
	"purerdma/rsocket"
)

// send copies a file to a server.
func send(ctx context.Context, u *tool.UI, remote cm.Addr, source, dest string) error {
	conn, err := new(rsocket.Dialer).DialAddr(ctx, remote)
	if err != nil {
		u.Perror("rconnect failed\n", err)
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	u.Printf("opening...")
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "copy", Path: source, Err: errors.New("not a regular file")}
	}
	if err != nil {
		return err
	}
	if err := open(conn, dest, info.Mode()); err != nil {
		return err
	}
	took, err := transfer(u, conn, f, info.Size())
	err = errors.Join(err, closeFile(u, conn))
	if err != nil {
		return err
	}
	usec := float64(float32(took.Microseconds()))
	return u.Printf("%d bytes in %.2f seconds = %.2f Gb/sec\n", info.Size(), usec/1e6, float64(info.Size()*8)/(1000*usec))
}

// typeRegular is the type of regular files in the mode of stat(2).
const typeRegular = 0o100000

// open makes the server open its file.
func open(conn net.Conn, path string, mode os.FileMode) error {
	padded := (len(path) + pathUnit) &^ (pathUnit - 1) // at least one byte more, which is zero
	if headerLen+padded > math.MaxUint16 {
		return &os.PathError{Op: "open", Path: path, Err: syscall.ENAMETOOLONG}
	}
	payload := make([]byte, padded)
	copy(payload, path)
	if err := (header{command: cmdOpen, data: typeRegular | uint32(mode.Perm())}).send(conn, payload); err != nil {
		return err
	}
	return readAnswer(conn, cmdOpen)
}

// transfer sends the bytes of the file.
func transfer(u *tool.UI, conn net.Conn, f io.Reader, size int64) (time.Duration, error) {
	u.Printf("transferring")
	payload := binary.NativeEndian.AppendUint64(nil, uint64(size))
	if err := (header{command: cmdWrite}).send(conn, payload); err != nil {
		return 0, err
	}
	u.Printf("...")
	start := time.Now()
	_, err := io.CopyN(conn, f, size)
	if err == nil {
		err = readAnswer(conn, cmdWrite)
	}
	return time.Since(start), err
}

// closeFile makes the server close its file.
func closeFile(u *tool.UI, conn net.Conn) error {
	u.Printf("closing...")
	if err := (header{command: cmdClose}).send(conn, nil); err != nil {
		return err
	}
	if err := readAnswer(conn, cmdClose); err != nil {
		return err
	}
	return u.Printf("done\n")
}
