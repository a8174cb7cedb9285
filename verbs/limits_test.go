// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/uverbs"
	"purerdma/verbs"
)

// TestLimits requests more than the device supports. The error must name the exceeded limit.
func TestLimits(t *testing.T) {
	rt := fakeRoute()
	e := newEnd(t, rt.h, rt.a, verbs.QPCap{})
	qp := func(c verbs.QPCap) func() error {
		return func() error {
			_, err := e.pd.CreateQP(verbs.QPConfig{Cap: c})
			return err
		}
	}
	srq := func(c verbs.SRQConfig) func() error {
		return func() error {
			_, err := e.pd.CreateSRQ(c)
			return err
		}
	}
	for _, c := range []struct {
		call func() error
		want string
	}{
		{qp(verbs.QPCap{SendWR: 4097}), "Cap.SendWR is 4097, the device has at most 4096"},
		{qp(verbs.QPCap{RecvWR: 1 << 30}), "Cap.RecvWR is 1073741824, the device has at most 4096"},
		{qp(verbs.QPCap{SendSGE: 33}), "Cap.SendSGE is 33, the device has at most 32"},
		{qp(verbs.QPCap{RecvSGE: 33}), "Cap.RecvSGE is 33, the device has at most 32"},
		{qp(verbs.QPCap{SendWR: -1}), "Cap.SendWR is -1"},
		{qp(verbs.QPCap{Inline: -1}), "Cap.Inline is -1"},
		{qp(verbs.QPCap{Inline: 1000}), "1000 bytes inline, rxe has at most 512"},
		{srq(verbs.SRQConfig{MaxWR: 1<<20 + 1}), "MaxWR is 1048577, the device has at most 1048576"},
		{srq(verbs.SRQConfig{MaxSGE: 100}), "MaxSGE is 100, the device has at most 32"},
		{srq(verbs.SRQConfig{MaxWR: 10, Limit: 11}), "Limit is 11, the device has at most 10"},
		{srq(verbs.SRQConfig{MaxWR: -1}), "MaxWR is -1"},
		{func() error { return e.cq.Resize(1 << 20) }, "Entries is 1048576, the device has at most 32767"},
		{func() error { return e.cq.Resize(0) }, "no entries"},
		{func() error { return e.cq.Moderate(1<<16, 0) }, "65536 completions"},
	} {
		err := c.call()
		var op *verbs.OpError
		if !errors.As(err, &op) || !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error = %v, want an OpError of EINVAL with\n%s", err, c.want)
		}
	}
}

// TestUnsupported uses objects and commands that the driver does not support.
func TestUnsupported(t *testing.T) {
	rt := fakeRoute()
	rt.fake.Intercept = func(r *uverbs.Request) error {
		if r.Object == abi.UVERBS_OBJECT_ASYNC_EVENT {
			return syscall.EPROTONOSUPPORT
		}
		if code := r.Find(abi.UVERBS_ATTR_WRITE_CMD); r.Object == abi.UVERBS_OBJECT_DEVICE && code != nil {
			switch uverbs.Number(code.Buf) {
			case abi.IB_USER_VERBS_CMD_REREG_MR, abi.IB_USER_VERBS_CMD_ALLOC_MW, abi.IB_USER_VERBS_CMD_CREATE_AH:
				return syscall.EOPNOTSUPP
			}
		}
		return nil
	}
	e := newEnd(t, rt.h, rt.a, verbs.QPCap{})
	for what, err := range map[string]error{
		"moderate":     e.cq.Moderate(10, 0),
		"dma-buf":      second(e.pd.RegDMABuf(0, 0, 4096, 0, verbs.LocalWrite)),
		"reregister":   e.buf.Reregister(verbs.MRChange{Access: new(verbs.Access)}),
		"advise":       e.pd.Advise(verbs.Prefetch, true, e.buf.SGE()),
		"async events": second(e.dev.AsyncEvents()),
		"MW":           second(e.pd.AllocMW(verbs.MWType1)),
		"AH":           second(e.pd.CreateAH(verbs.AHAttr{Port: 1})),
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s on a device without it = %v, want ErrUnsupported", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
