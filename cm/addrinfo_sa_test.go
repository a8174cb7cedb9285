// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/ucma"
	"purerdma/verbs"
)

// TestServiceInfos: the records of a subnet administrator become addresses. No
// driver here has a fabric: the kernel is a fake.
func TestServiceInfos(t *testing.T) {
	ours := verbs.GID(netip.MustParseAddr("fe80::1").As16())
	theirs := verbs.GID(netip.MustParseAddr("fe80::2").As16())
	for _, tc := range []struct {
		service string
		status  int32
		records uint32
		flags   uint64
		err     error
	}{
		{"0x1061d2f", 0, 2, abi.RDMA_USER_CM_IB_SERVICE_FLAG_ID, nil},
		{"storage", 0, 1, abi.RDMA_USER_CM_IB_SERVICE_FLAG_NAME, nil},
		{"storage", 0, 0, abi.RDMA_USER_CM_IB_SERVICE_FLAG_NAME, syscall.ENOENT},
		{"storage", -int32(syscall.EINVAL), 0, abi.RDMA_USER_CM_IB_SERVICE_FLAG_NAME, syscall.EINVAL},
	} {
		h := &hooked{fakeKernel: newFakeKernel()}
		ch := newEventChannel(ucma.New(h), &verbs.Host{})
		id := newFakeID(t, ch)
		h.write = func(b []byte) {
			switch binary.NativeEndian.Uint32(b) {
			case abi.RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE:
				if flags := abi.View[abi.UcmResolveIBService](b[8:]).IBS.Flags; uint64(flags) != tc.flags {
					t.Errorf("%s: flags %d", tc.service, flags)
				}
				typ := EventAddrInfoResolved
				if tc.status != 0 {
					typ = EventAddrInfoError
				}
				h.queue(id.kid, typ, tc.status)
			case abi.RDMA_USER_CM_CMD_QUERY:
				answer := (*struct {
					Head abi.UcmQueryIBServiceResp
					Recs [2]abi.IBUserServiceRec
				})(pointerAt(b, 8))
				answer.Head.NumServiceRecs = tc.records
				for i := range answer.Recs {
					answer.Recs[i].GID = theirs
					answer.Recs[i].PKey = [2]uint8{0x80, uint8(i)}
					answer.Recs[i].ID = [8]uint8{7: uint8(5 + i)}
				}
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		infos, err := id.serviceInfos(ctx, ours, tc.service)
		cancel()
		ch.Close()
		if !errors.Is(err, tc.err) || len(infos) != int(tc.records) {
			t.Errorf("%+v: %d answers, %v", tc, len(infos), err)
		}
		for i, info := range infos {
			dst := IBAddr{PKey: 0x8000 | uint16(i), GID: theirs, ServiceID: uint64(5 + i), ServiceIDMask: 1<<64 - 1}
			src := IBAddr{PKey: dst.PKey, GID: ours, ServiceID: 0x13f0000, ServiceIDMask: 1<<64 - 1<<16}
			if info.DstAddr.IB != dst || info.SrcAddr.IB != src || info.PortSpace != PortSpaceIB || info.Family != FamilyIB || info.Flags != AddrInfoSA {
				t.Errorf("%+v", info)
			}
		}
	}
}

// TestNoFabric: without an InfiniBand port nobody can be asked.
func TestNoFabric(t *testing.T) {
	if infos, err := saAddrInfo(context.Background(), fakeHost(), "storage"); !errors.Is(err, syscall.ENOENT) || infos != nil {
		t.Errorf("%v, %v", infos, err)
	}
}
