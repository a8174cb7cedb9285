// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
)

// infoSize is the size of every message, in both directions.
const infoSize = 16

// info is a message of the client. It describes memory that the server must read or write
// (struct rping_rdma_info). The server's messages have equal size and no content.
type info struct {
	addr uint64
	rkey uint32
	size uint32
}

func (i info) encode(b []byte) {
	_ = b[infoSize-1]
	binary.BigEndian.PutUint64(b, i.addr)
	binary.BigEndian.PutUint32(b[8:], i.rkey)
	binary.BigEndian.PutUint32(b[12:], i.size)
}

func decodeInfo(b []byte) info {
	_ = b[infoSize-1]
	return info{
		addr: binary.BigEndian.Uint64(b),
		rkey: binary.BigEndian.Uint32(b[8:]),
		size: binary.BigEndian.Uint32(b[12:]),
	}
}

// bogusMessageError reports a message of the wrong size.
type bogusMessageError struct{ size uint32 }

func (e *bogusMessageError) Error() string {
	return fmt.Sprintf("Received bogus data, size %d", e.size)
}

// source checks the memory that a client offers for reading into a buffer of the given size. It
// returns the memory's length.
func (i info) source(buffer int) (int, error) {
	switch {
	case i.size == 0:
		return 0, fmt.Errorf("the client offers 0 bytes at address %#x", i.addr)
	case i.size > maxSize:
		return 0, fmt.Errorf("the client offers %d bytes, more than the maximum of a ping, %d", i.size, maxSize)
	case uint64(i.size) > uint64(buffer):
		return 0, fmt.Errorf("the client offers %d bytes for a buffer of %d (start the server with -S %d)", i.size, buffer, i.size)
	}
	return int(i.size), nil
}

// sink checks the memory that a client offers for n bytes of data.
func (i info) sink(n int) error {
	if uint64(i.size) < uint64(n) {
		return fmt.Errorf("the client offers %d bytes for data of %d", i.size, n)
	}
	return nil
}

// text returns the string in b, including the terminating NUL.
func text(b []byte) ([]byte, error) {
	n := bytes.IndexByte(b, 0)
	if n < 0 {
		return nil, fmt.Errorf("the client's %d bytes of data have no terminating NUL", len(b))
	}
	return b[:n+1], nil
}

// printable returns the string in b for printing. It escapes bytes that are not in a ping's
// data, such as a terminal's control characters.
func printable(b []byte) []byte {
	if n := bytes.IndexByte(b, 0); n >= 0 {
		b = b[:n]
	}
	for i, c := range b {
		if c < ' ' || c > '~' {
			out := append([]byte(nil), b[:i]...)
			for _, c := range b[i:] {
				if c < ' ' || c > '~' {
					out = fmt.Appendf(out, `\x%02x`, c)
				} else {
					out = append(out, c)
				}
			}
			return out
		}
	}
	return b
}

// fill writes the data of ping number n. The data consists of the number, letters that begin
// with a different letter for each ping, and a NUL.
func fill(b []byte, n int) {
	const first, last = 'A', 'z'
	head := strconv.AppendInt([]byte("rdma-ping-"), int64(n), 10)
	i := copy(b, append(head, ": "...))
	c := byte(first + n%(last-first+1))
	for ; i < len(b); i++ {
		b[i] = c
		if c++; c > last {
			c = first
		}
	}
	b[len(b)-1] = 0
}
