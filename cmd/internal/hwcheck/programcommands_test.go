// SPDX-License-Identifier: Apache-2.0

//go:build linux

package hwcheck

import (
	"encoding/binary"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"purerdma/abi"
	"purerdma/internal/cmdtrace"
	"purerdma/internal/hwreport"
	"purerdma/verbs"
)

// TestConvertedCommands converts commands of a program. The result must have the driver's parts and no secret.
func TestConvertedCommands(t *testing.T) {
	secret := []byte("secretGIDsecret!")
	k := &recordingKernel{secrets: [][]byte{secret}}
	core := func(command uint32, in string) []cmdtrace.Attr {
		return []cmdtrace.Attr{
			{ID: abi.UVERBS_ATTR_CORE_IN, In: []byte(in)}, {ID: abi.UVERBS_ATTR_WRITE_CMD, In: binary.NativeEndian.AppendUint64(nil, uint64(command))},
			{ID: abi.UVERBS_ATTR_UHW_IN, In: append([]byte("driver"), secret...)}, {ID: abi.UVERBS_ATTR_UHW_OUT, Out: []byte("out\x00\x00")},
		}
	}
	write := func(command uint32) []byte {
		return append(abi.Bytes(&abi.UverbsCmdHdr{Command: command, InWords: 4, OutWords: 1}), "12345678"...)
	}
	calls := k.converted([]*cmdtrace.Command{
		{Device: "rdma_cm", Bytes: secret},
		{Device: "ioctl", Object: abi.UVERBS_OBJECT_DEVICE, Method: abi.UVERBS_METHOD_INVOKE_WRITE, Attrs: core(abi.IB_USER_VERBS_CMD_REG_MR, "region")},
		{Device: "ioctl", Object: abi.UVERBS_OBJECT_DEVICE, Method: abi.UVERBS_METHOD_INVOKE_WRITE, Attrs: core(abi.IB_USER_VERBS_CMD_MODIFY_QP, "LID"), Errno: 22},
		{Device: "mmap", Offset: 4096, Length: 8192},
		{Device: "uverbs", Bytes: write(abi.IB_USER_VERBS_CMD_ALLOC_PD), Result: []byte("resp")},
		{Device: "uverbs", Bytes: write(abi.IB_USER_VERBS_CMD_QUERY_PORT), Result: []byte("LIDs")},
		{Device: "uverbs", Bytes: []byte("123")},
	})
	b, err := json.Marshal(calls)
	if err != nil {
		t.Fatalf("json.Marshal: %v", err)
	}
	const driver = `"in":{"4096":"647269766572` // and zeros instead of the secret
	zeros := strings.Repeat("00", len(secret))
	want := `[{"name":"IB_USER_VERBS_CMD_REG_MR","o":0,"m":0,"rc":0,"in":{"0":"726567696f6e","2":"0900000000000000","4096":"647269766572` + zeros + `"},"out":{"4097":"6f7574"}},` +
		`{"name":"IB_USER_VERBS_CMD_MODIFY_QP","o":0,"m":0,"rc":22,` + driver + zeros + `"},"out":{"4097":"6f7574"}},` +
		`{"name":"mmap","o":0,"m":0,"rc":0,"mmap":4096,"len":8192},` +
		`{"name":"IB_USER_VERBS_CMD_ALLOC_PD","o":0,"m":0,"rc":0,"in":{"0":"0300000004000100` + `3132333435363738"},"out":{"0":"72657370"},"write":3},` +
		`{"name":"IB_USER_VERBS_CMD_QUERY_PORT","o":0,"m":0,"rc":0,"write":2}]`
	if string(b) != want {
		t.Errorf("converted = %s, want %s", b, want)
	}
	if got, want := summary(calls), "4 commands, 1 mappings, 50 bytes of the driver"; got != want {
		t.Errorf("summary = %s, want %s", got, want)
	}
}

// TestUntraceable checks the precondition of traces on this host, and that the check does not run without it.
func TestUntraceable(t *testing.T) {
	if reason := untraceable(t.Context()); reason != "" {
		t.Fatalf("untraceable = %q, want none for a program of this user", reason)
	}
	t.Setenv("PATH", t.TempDir())
	if reason := untraceable(t.Context()); !strings.Contains(reason, "executable file not found") {
		t.Errorf("untraceable without a program = %q, want the missing file", reason)
	}
	check, _ := Find("program-commands")
	target := &Target{Host: &verbs.Host{}, Device: "none0", Port: 1, Addr: netip.MustParseAddr("10.0.0.1")}
	r := check.Run(t.Context(), target)
	if r.Status != hwreport.Skip || !strings.Contains(r.Reason, "ib_write_bw") {
		t.Errorf("Run(program-commands) without programs = %s: %s, want %s because of the last program", r.Status, r.Reason, hwreport.Skip)
	}
	// A program that refuses to be traced has this status and output.
	failing := filepath.Join(t.TempDir(), "true")
	if err := os.WriteFile(failing, []byte("#!/bin/sh\necho no right >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	t.Setenv("PATH", filepath.Dir(failing))
	if reason := untraceable(t.Context()); !strings.Contains(reason, "no right") {
		t.Errorf("untraceable = %q, want the output of the failed program", reason)
	}
}
