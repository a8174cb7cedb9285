// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
)

func TestCommand(t *testing.T) {
	var out bytes.Buffer
	tr := New(&out)
	tr.Command("rdma_cm", "REG", &abi.UverbsRegMR{Start: abi.NewPointer(new(byte)), Length: 1 << 20, AccessFlags: 15}, &abi.UverbsRegMRResp{LKey: 7}, nil, 1500*time.Nanosecond)
	tr.Command("rxe0", "X", List{{"cqe", uint32(0)}, {"pd", Handle(2)}, {"chan", FD(5)}, {"driver", abi.RDMA_DRIVER_RXE}}, nil, nil, 0)
	tr.Command("rxe0", "X", &abi.UverbsAttachMcast{GID: netip.MustParseAddr("fe80::1").As16()}, nil, nil, 0)
	tr.Command("rxe0", "X", nil, nil, fmt.Errorf("wrapped: %w", syscall.EINVAL), 0)
	tr.Command("rxe0", "X", List{{"raw", make([]byte, 100)}, {"list", make([]uint16, 10)}}, List{}, nil, 0)
	want := "rdma_cm: REG(Start=ptr, Length=0x100000, PDHandle=0, AccessFlags=0xf) = {MRHandle=0, LKey=7} <1.5µs>\n" +
		"rxe0: X(cqe=0, pd=2, chan=fd 5, driver=rxe) = 0 <0s>\n" +
		"rxe0: X(GID=fe80::1, QPHandle=0) = 0 <0s>\n" +
		"rxe0: X() = EINVAL (wrapped: invalid argument) <0s>\n" +
		"rxe0: X(raw=" + strings.Repeat("0", 128) + "...(100 bytes), list=[0, 0, 0, 0, 0, 0, 0, 0, ... 2 more]) = {} <0s>\n"
	if got := strings.ReplaceAll(out.String(), "error (", "EINVAL ("); got != want {
		t.Errorf("Command writes:\n%s\nwant:\n%s", got, want)
	}
}

func TestSelect(t *testing.T) {
	for v, want := range map[string]bool{"": false, "0": false, "1": true} {
		t.Setenv(Variable, v)
		if got := Select(nil) != nil; got != want {
			t.Errorf("Select(nil) with %s=%q enables the trace: %v, want %v", Variable, v, got, want)
		}
	}
	t.Setenv(Variable, "")
	var out bytes.Buffer
	opt := &slog.HandlerOptions{Level: slog.LevelDebug}
	Select(slog.New(slog.NewTextHandler(&out, opt))).Command("rxe0", "X", List{{"a", 1}}, List{{"b", 2}}, nil, 0)
	if s := out.String(); !strings.Contains(s, "msg=X device=rxe0 in=\"a=1\" took=0s out=\"b=2\"") {
		t.Errorf("record = %s, want the command with its arguments and response", s)
	}
	out.Reset()
	Select(slog.New(slog.NewTextHandler(&out, nil))).Command("rxe0", "X", nil, nil, nil, 0)
	if out.Len() != 0 {
		t.Errorf("logger of level Info got %s, want no record", out.String())
	}
}

// TestDecode compares Decode with the memory of the structs.
func TestDecode(t *testing.T) {
	want := abi.UverbsQueryQPResp{QPState: 3, RQPSN: 77, Dest: abi.UverbsQPDest{DGID: [16]uint8{1, 2, 3}}}
	b := abi.Bytes(&want)
	if got := Decode(reflect.TypeFor[abi.UverbsQueryQPResp](), b); got != want {
		t.Errorf("Decode() = %+v, want %+v", got, want)
	}
	for n := range len(b) + 1 {
		appendList(nil, Decode(reflect.TypeFor[abi.UverbsQueryQPResp](), b[:n]))
	}
	if got := Decode(reflect.TypeFor[int32](), []byte{0xff, 0xff, 0xff, 0xff}); got != int32(-1) {
		t.Errorf("Decode(int32) = %v, want -1", got)
	}
}
