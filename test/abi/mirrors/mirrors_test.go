// SPDX-License-Identifier: Apache-2.0

package mirrors

import (
	"reflect"
	"strings"
	"structs"
	"testing"

	"purerdma/abi"
	"purerdma/test/abi/golden"
)

type good struct {
	_        structs.HostLayout
	Response abi.Pointer
	WRID     uint32
	Delta    int32
	GUID     [8]uint8
	AHAttr   abi.UverbsAHAttr
	Port     uint8
	_        [3]uint8
	_        uint32 // padding
}

type noLayout struct{ ID uint32 }

type noPointer struct {
	_        structs.HostLayout
	Response uint64
}

type noSign struct {
	_     structs.HostLayout
	Delta uint32
}

type otherName struct {
	_  structs.HostLayout
	QP uint32
}

type gap struct {
	_ structs.HostLayout
	A uint16
	B uint32
}

type tail struct {
	_ structs.HostLayout
	B uint32
	A uint16
}

type hidden struct {
	_ structs.HostLayout
	_ uint32
}

type bytesNotOrdered struct {
	_ structs.HostLayout
	A [4]uint8
}

type otherMirror struct {
	_      structs.HostLayout
	AHAttr abi.UverbsQPDest
}

func TestCompare(t *testing.T) {
	for _, tc := range []struct {
		mirror any
		c      string // struct in a golden file
		want   string // part of the only difference
	}{
		{good{}, "72\n response 0 8 __u64\n wr_id 8 4 __u32\n delta 12 4 __s32\n guid 16 8 __be64\n ah_attr 24 32 struct ib_uverbs_ah_attr\n port 56 1 __u8\n reserved 57 3 __u8[3]\n flexible 64 0 __u64[0]", "64 bytes, 72 in C"},
		{good{}, "64\n response 0 8 __u64\n wr_id 8 4 __u32\n delta 12 4 __s32\n guid 16 8 __be64\n ah_attr 24 32 struct ib_uverbs_ah_attr\n port 56 1 __u8\n reserved 57 3 __u8[3]", ""},
		{noLayout{}, "4\n id 0 4 __u32", "HostLayout"},
		{noPointer{}, "8\n response 0 8 __u64", "has to be a Pointer"},
		{noSign{}, "4\n delta 0 4 __s32", "has a sign"},
		{otherName{}, "4\n qkey 0 4 __u32", "C has qkey"},
		{gap{}, "8\n a 0 2 __u16\n b 4 4 __u32", "not explicit"},
		{tail{}, "8\n b 0 4 __u32\n a 4 2 __u16", "not explicit"},
		{hidden{}, "4\n id 0 4 __u32", "C has id"},
		{bytesNotOrdered{}, "4\n a 0 4 __u32", "network order"},
		{otherMirror{}, "32\n ah_attr 0 32 struct ib_uverbs_ah_attr", "the mirror of"},
	} {
		text := "linux-libc-dev 1 amd64\nheader x\nstruct c " + strings.ReplaceAll(tc.c, "\n ", "\n\t") + "\n"
		f, err := golden.Parse(text)
		if err != nil {
			t.Fatalf("golden.Parse(text): %v", err)
		}
		got := Compare(f.Struct("c"), reflect.TypeOf(tc.mirror), nil)
		switch {
		case tc.want == "" && len(got) > 0, tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)):
			t.Errorf("Compare(%s, %T) = %q, want %q", tc.c, tc.mirror, got, tc.want)
		}
	}
}
