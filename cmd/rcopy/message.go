// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"syscall"
)

// Commands of messages. An answer has the bit cmdResp, and an errno as its data.
const (
	cmdOpen  = 1
	cmdClose = 2
	cmdWrite = 3
	cmdResp  = 0x80
)

const (
	headerLen = 16
	sizeLen   = 8 // the payload of a cmdWrite, which is the number of bytes that follow
	pathUnit  = 8 // the payload of a cmdOpen is a path, padded to a multiple
)

// header starts each message. Its numbers are in the byte order of the host, as in C.
type header struct {
	version, command uint8
	length           uint16 // of the message in bytes
	data             uint32
	id               uint64
}

func (h header) append(b []byte) []byte {
	b = append(b, h.version, h.command)
	b = binary.NativeEndian.AppendUint16(b, h.length)
	b = binary.NativeEndian.AppendUint32(b, h.data)
	return binary.NativeEndian.AppendUint64(b, h.id)
}

// send sends a message with a payload. It sets the length in the header.
func (h header) send(w io.Writer, payload []byte) error {
	h.length = uint16(headerLen + len(payload))
	_, err := w.Write(append(h.append(nil), payload...))
	return err
}

// payload reads the rest of a message.
func (h header) payload(r io.Reader) ([]byte, error) {
	b := make([]byte, h.length-headerLen)
	_, err := io.ReadFull(r, b)
	return b, err
}

// invalidHeader reports the header of another protocol.
type invalidHeader struct{ version, length int }

func (e invalidHeader) Error() string {
	return fmt.Sprintf("invalid version %d or length %d", e.version, e.length)
}

// readHeader reads a header.
func readHeader(r io.Reader) (h header, err error) {
	var b [headerLen]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return h, err
	}
	h = header{b[0], b[1], binary.NativeEndian.Uint16(b[2:]), binary.NativeEndian.Uint32(b[4:]), binary.NativeEndian.Uint64(b[8:])}
	if h.version != 0 || h.length < headerLen {
		return h, invalidHeader{int(h.version), int(h.length)}
	}
	return h, nil
}

// readAnswer reads the answer to a command, and returns the error that the server has sent.
func readAnswer(r io.Reader, command uint8) error {
	h, err := readHeader(r)
	switch {
	case err != nil:
		return err
	case h.length != headerLen || h.command != command|cmdResp:
		return fmt.Errorf("invalid length %d or bad command response %x:%x", h.length, h.command, command|cmdResp)
	case h.data != 0:
		return fmt.Errorf("the server: %w", syscall.Errno(h.data))
	}
	return nil
}
