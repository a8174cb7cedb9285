// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"strings"
	"testing"

	"purerdma/test/microvm/wire"
)

// guestSends returns a virtual machine whose guest sends what b holds, and nobody reads
// what it is sent.
func guestSends(b []byte) *vm {
	o := &Options{Headers: true, Commands: []wire.Command{{Args: []string{"x"}}, {Dir: "/d", Args: []string{"y", "z"}}}}
	port := struct {
		io.Reader
		io.Writer
	}{bytes.NewReader(b), io.Discard}
	v := &vm{o: o, stderr: io.Discard, stdout: io.Discard, conn: wire.NewConn(port)}
	v.end = func(error) {}
	return v
}

// frame appends a frame.
func frame(b []byte, k wire.Kind, data string) []byte {
	b = append(b, byte(k))
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

// TestFramesMakeNoSense: frames that an orderly guest does not send are errors.
func TestFramesMakeNoSense(t *testing.T) {
	start := frame(nil, wire.Start, `{"Index":0}`)
	for name, tc := range map[string]struct {
		sent []byte
		want string
	}{
		"a command beyond the list":   {frame(nil, wire.Start, `{"Index":99}`), "command 99 of 2"},
		"a negative command":          {frame(nil, wire.Start, `{"Index":-1}`), "command -1 of 2"},
		"the end beyond the list":     {frame(nil, wire.End, `{"Index":2}`), "command 2 of 2"},
		"the end of a negative one":   {frame(nil, wire.End, `{"Index":-1}`), "command -1 of 2"},
		"input taken before a start":  {frame(nil, wire.StdinAck, "\x00\x00\x00\x01"), errBadAck.Error()},
		"input taken that is not":     {frame(start, wire.StdinAck, "\x00\x00\x00\x01"), errBadAck.Error()},
		"input taken without a count": {frame(start, wire.StdinAck, "\x00"), errBadAck.Error()},
		"a start without JSON":        {frame(nil, wire.Start, "x"), "invalid character"},
		"an end of a huge number":     {frame(nil, wire.End, `{"Index":1e30}`), "cannot unmarshal"},
		"half a frame":                {start[:7], "EOF"},
	} {
		v := guestSends(tc.sent)
		if err := v.receive(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		v.setLimit(0, "")
	}
	v := guestSends(frame(start, wire.Fault, "hca0 fatal 1"))
	if err := v.receive(); err != io.EOF {
		t.Errorf("a fault without cards: %v", err)
	}
	v.setLimit(0, "")
}

// TestAck: the window opens by what was taken, and by no more than was sent.
func TestAck(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	v := guestSends(nil)
	v.input = newInput(r, v.conn)
	w.WriteString("four")
	for v.input.ack([]byte{0, 0, 0, 4}) != nil {
		// until it has been sent
	}
	if err := v.input.ack([]byte{0, 0, 0, 1}); err == nil {
		t.Error("more is taken than was sent")
	}
}

// TestLogIsBounded: the guest cannot have its kernel's log fill the memory.
func TestLogIsBounded(t *testing.T) {
	v := guestSends(frame(frame(nil, wire.Kmsg, "begin"), wire.Kmsg, strings.Repeat("x", 1<<20)))
	v.kmsg.Write(make([]byte, maxLog-10))
	if err := v.receive(); err != io.EOF || v.kmsg.Len() != maxLog || !bytes.HasSuffix(v.kmsg.Bytes(), []byte("beginxxxxx")) {
		t.Errorf("%v, a log of %d bytes, want %d", err, v.kmsg.Len(), maxLog)
	}
}

// FuzzFrames: whatever the guest sends ends in an error, or in an orderly way.
func FuzzFrames(f *testing.F) {
	start, end := frame(nil, wire.Start, `{"Index":1}`), frame(nil, wire.End, `{"Index":1,"Status":7,"Error":"no","Timeout":true,"Elapsed":9}`)
	f.Add(frame(append(append(frame(nil, wire.Note, "modules"), start...), end...), wire.Done, ""))
	f.Add(frame(frame(start, wire.StdinAck, "\x00\x00\x00\x00"), wire.Failed, "cannot mount"))
	f.Add(frame(frame(frame(nil, wire.Stdout, "a"), wire.Stderr, "b"), wire.Kmsg, "Oops"))
	f.Add(frame(frame(nil, wire.Fault, "hca0 lose 3"), wire.Start, `{"Index":99}`))
	f.Add(frame(frame(nil, wire.StdinAck, "\x00\x00\x00\x01"), wire.End, `{"Index":-1}`))
	f.Add([]byte("o\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		v := guestSends(b)
		_ = v.receive()
		v.setLimit(0, "")
	})
}
