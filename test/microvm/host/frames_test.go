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

// guestSends returns a virtual machine whose guest sends b and does not read.
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

// TestFramesMakeNoSense checks that invalid frames are errors.
func TestFramesMakeNoSense(t *testing.T) {
	start := frame(nil, wire.Start, `{"Index":0}`)
	for name, tc := range map[string]struct {
		sent []byte
		want string
	}{
		"a command beyond the list":   {frame(nil, wire.Start, `{"Index":99}`), "index 99 of 2"},
		"a negative command":          {frame(nil, wire.Start, `{"Index":-1}`), "index -1 of 2"},
		"the end beyond the list":     {frame(nil, wire.End, `{"Index":2}`), "index 2 of 2"},
		"the end of a negative one":   {frame(nil, wire.End, `{"Index":-1}`), "index -1 of 2"},
		"input taken before a start":  {frame(nil, wire.StdinAck, "\x00\x00\x00\x01"), errBadAck.Error()},
		"input taken that is not":     {frame(start, wire.StdinAck, "\x00\x00\x00\x01"), errBadAck.Error()},
		"input taken without a count": {frame(start, wire.StdinAck, "\x00"), errBadAck.Error()},
		"a start without JSON":        {frame(nil, wire.Start, "x"), "invalid character"},
		"an end of a huge number":     {frame(nil, wire.End, `{"Index":1e30}`), "cannot unmarshal"},
		"half a frame":                {start[:7], "EOF"},
	} {
		v := guestSends(tc.sent)
		if err := v.receive(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("receive of %s = %v, want %q", name, err, tc.want)
		}
		v.setLimit(0, "")
	}
	v := guestSends(frame(start, wire.Fault, "hca0 fatal 1"))
	if err := v.receive(); err != io.EOF {
		t.Errorf("receive of a fault without cards = %v, want io.EOF", err)
	}
	v.setLimit(0, "")
}

// TestKernelMessagesOfAFailure checks that the kernel's messages are printed when a program of a
// list fails, without the messages from before its start.
func TestKernelMessagesOfAFailure(t *testing.T) {
	for status, want := range map[string]string{"0": "", "3": "the kernel's last messages while x ran:\nduring 1\nduring 2\n"} {
		b := frame(nil, wire.Kmsg, "before\n")
		b = frame(b, wire.Start, `{"Index":0}`)
		b = frame(b, wire.Kmsg, "during 1\nduring 2\n")
		b = frame(b, wire.End, `{"Index":0,"Status":`+status+`}`)
		v := guestSends(b)
		var printed strings.Builder
		v.stderr = &printed
		if err := v.receive(); err != io.EOF {
			t.Errorf("receive of a program with status %s = %v, want io.EOF", status, err)
		}
		v.setLimit(0, "")
		if got := printed.String(); !strings.Contains(got, want) || strings.Contains(got, "before") || want == "" && strings.Contains(got, "kernel") {
			t.Errorf("receive of a program with status %s printed %q, want %q", status, got, want)
		}
	}
}

// TestAck checks that acknowledgments open the window, and that they cannot exceed the sent
// bytes.
func TestAck(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatalf("os.Pipe: %v", err)
	}
	defer r.Close()
	defer w.Close()
	v := guestSends(nil)
	v.input = newInput(r, v.conn)
	w.WriteString("four")
	for v.input.ack([]byte{0, 0, 0, 4}) != nil {
		// Wait until it has been sent.
	}
	if err := v.input.ack([]byte{0, 0, 0, 1}); err == nil {
		t.Error("ack of more bytes than were sent = nil, want an error")
	}
}

// TestLogIsBounded checks that a guest cannot fill the memory with its kernel's log.
func TestLogIsBounded(t *testing.T) {
	v := guestSends(frame(frame(nil, wire.Kmsg, "begin"), wire.Kmsg, strings.Repeat("x", 1<<20)))
	v.kmsg.Write(make([]byte, maxLog-10))
	if err := v.receive(); err != io.EOF || v.kmsg.Len() != maxLog || !bytes.HasSuffix(v.kmsg.Bytes(), []byte("beginxxxxx")) {
		t.Errorf("receive = %v, a log of %d bytes, want io.EOF and the last %d bytes", err, v.kmsg.Len(), maxLog)
	}
}

// FuzzFrames checks that receive returns for any input.
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
