// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// errnoMessage encodes the payload of NLMSG_ERROR: the errno, the request, and an explanation.
func errnoMessage(errno syscall.Errno, request int, text string) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(-int32(errno)))
	header := make([]byte, (request+3)&^3)
	binary.NativeEndian.PutUint32(header, uint32(request))
	b = append(b, header...)
	return append(b, message().addText(1, text).body...)
}

func TestAnswer(t *testing.T) {
	header := func(typ uint16, flags uint16) syscall.NlMsghdr {
		return syscall.NlMsghdr{Type: typ, Flags: flags, Seq: 7, Pid: 9}
	}
	stop := errors.New("stop")
	type result struct {
		done bool
		err  error
	}
	for _, tc := range []struct {
		name  string
		a     answer
		h     syscall.NlMsghdr
		data  []byte
		stop  bool
		want  result
		calls int
	}{
		{name: "single", h: header(5<<10|1, 0), want: result{done: true}, calls: 1},
		{name: "part of a list", h: header(5<<10|1, unix.NLM_F_MULTI), calls: 1},
		{name: "end of a list", h: header(unix.NLMSG_DONE, unix.NLM_F_MULTI), data: make([]byte, 4), want: result{done: true}},
		{name: "end without a payload", h: header(unix.NLMSG_DONE, 0), want: result{done: true}},
		{name: "acknowledgement", a: answer{ack: true}, h: header(unix.NLMSG_ERROR, 0), data: make([]byte, 20), want: result{done: true}},
		{name: "message before the acknowledgement", a: answer{ack: true}, h: header(5<<10|1, 0), calls: 1},
		{name: "errno", h: header(unix.NLMSG_ERROR, 0), data: errnoMessage(unix.EPERM, 20, ""), want: result{true, unix.EPERM}},
		{name: "errno at the end of a list", h: header(unix.NLMSG_DONE, 0), data: errnoMessage(unix.EINVAL, 16, "")[:4], want: result{true, unix.EINVAL}},
		{name: "interrupted", a: answer{interrupted: true}, h: header(unix.NLMSG_DONE, 0), data: make([]byte, 4), want: result{true, errInterrupted}},
		{name: "interrupted by its own flag", h: header(unix.NLMSG_DONE, unix.NLM_F_DUMP_INTR), data: make([]byte, 4), want: result{true, errInterrupted}},
		{name: "earlier request", h: syscall.NlMsghdr{Type: unix.NLMSG_DONE, Seq: 6, Pid: 9}},
		{name: "another socket", h: syscall.NlMsghdr{Type: unix.NLMSG_DONE, Seq: 7, Pid: 8}},
		{name: "no operation", h: header(unix.NLMSG_NOOP, 0)},
		{name: "short error", h: header(unix.NLMSG_ERROR, 0), data: []byte{1}, want: result{true, unix.EBADMSG}},
		{name: "stopped list", h: header(5<<10|1, unix.NLM_F_MULTI), stop: true, want: result{true, stop}, calls: 1},
	} {
		tc.a.seq, tc.a.port = 7, 9
		calls := 0
		done, err := tc.a.message(tc.h, tc.data, func(value) error {
			calls++
			if tc.stop {
				return stop
			}
			return nil
		})
		if done != tc.want.done || !errors.Is(err, tc.want.err) || calls != tc.calls {
			t.Errorf("%s: message() = %v, %v with %d messages, want %v, %v with %d", tc.name, done, err, calls, tc.want.done, tc.want.err, tc.calls)
		}
		if _, incomplete := errors.AsType[*incompleteError](err); incomplete != tc.stop {
			t.Errorf("%s: message() returns an *incompleteError: %v, want %v", tc.name, incomplete, tc.stop)
		}
	}
}

func TestExplanation(t *testing.T) {
	for _, tc := range []struct {
		name  string
		flags uint16
		data  []byte
		want  string
	}{
		{"whole request", unix.NLM_F_ACK_TLVS, errnoMessage(unix.EBUSY, 33, "manual"), "manual"},
		{"capped request", unix.NLM_F_ACK_TLVS | unix.NLM_F_CAPPED, append(errnoMessage(unix.EBUSY, 16, "")[:20], message().addText(1, "manual").body...), "manual"},
		{"no attributes", 0, errnoMessage(unix.EBUSY, 16, "manual"), ""},
		{"wrong length", unix.NLM_F_ACK_TLVS, errnoMessage(unix.EBUSY, 16, "manual")[:12], ""},
		{"no request", unix.NLM_F_ACK_TLVS, errnoMessage(unix.EBUSY, 16, "")[:4], ""},
	} {
		err := parseError(syscall.NlMsghdr{Type: unix.NLMSG_ERROR, Flags: tc.flags}, tc.data)
		refused, ok := errors.AsType[*refusal](err)
		if !ok || refused.errno != unix.EBUSY || refused.message != tc.want {
			t.Errorf("%s: parseError() = %#v, want EBUSY with %q", tc.name, err, tc.want)
		}
	}
}

// FuzzAnswer reads answers that no kernel sends.
func FuzzAnswer(f *testing.F) {
	f.Add(uint16(unix.NLMSG_ERROR), uint16(unix.NLM_F_ACK_TLVS), errnoMessage(unix.EBUSY, 33, "manual"))
	f.Add(uint16(unix.NLMSG_DONE), uint16(0), make([]byte, 4))
	f.Add(uint16(5<<10|1), uint16(unix.NLM_F_MULTI), []byte(message().addU32(1, 2).body))
	f.Fuzz(func(t *testing.T, typ, flags uint16, data []byte) {
		a := answer{seq: 1, port: 2}
		_, err := a.message(syscall.NlMsghdr{Type: typ, Flags: flags, Seq: 1, Pid: 2}, data, func(value) error { return nil })
		if refused, ok := errors.AsType[*refusal](err); ok && (refused.errno == 0 || len(refused.message) > len(data)) {
			t.Errorf("message(%d, %#x, %x) = %+v", typ, flags, data, refused)
		}
	})
}
