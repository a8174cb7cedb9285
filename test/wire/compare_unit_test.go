// SPDX-License-Identifier: Apache-2.0

//go:build linux

package wire

import (
	"testing"

	"purerdma/abi"
	"purerdma/internal/cmdtrace"
)

// TestCompare checks that differences are found, and that varying fields are no differences.
func TestCompare(t *testing.T) {
	regMR := func(cmd abi.UverbsRegMR, flags uint16) *cmdtrace.Command {
		code := uint64(abi.IB_USER_VERBS_CMD_REG_MR)
		return &cmdtrace.Command{Device: "ioctl", Method: abi.UVERBS_METHOD_INVOKE_WRITE, Attrs: []cmdtrace.Attr{
			{ID: abi.UVERBS_ATTR_WRITE_CMD, Len: 8, Flags: 1, In: abi.Bytes(&code)},
			{ID: abi.UVERBS_ATTR_CORE_IN, Len: 40, Flags: flags, In: abi.Bytes(&cmd)},
		}}
	}
	c := group([]*cmdtrace.Command{regMR(abi.UverbsRegMR{Length: 4096, HCAVA: 1, PDHandle: 2, AccessFlags: 1}, 1)})
	for _, tc := range []struct {
		ours *cmdtrace.Command
		want int
	}{
		{regMR(abi.UverbsRegMR{Length: 4096, HCAVA: 7, PDHandle: 3, AccessFlags: 1}, 1), 0},
		{regMR(abi.UverbsRegMR{Length: 4096, AccessFlags: 5}, 1), 1},
		{regMR(abi.UverbsRegMR{Length: 4095, AccessFlags: 5}, 0), 3},
	} {
		compared, only, diff := compare("test", c, group([]*cmdtrace.Command{tc.ours}))
		if len(compared) != 1 || len(only) != 0 || len(diff) != tc.want {
			t.Errorf("%v %v %q, want %d differences", compared, only, diff, tc.want)
		}
	}
}
