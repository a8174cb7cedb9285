// SPDX-License-Identifier: Apache-2.0

//go:build linux

package oob_test

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/oob"
	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/test/connectx/inprocess"
	"purerdma/verbs"
)

// TestPathNumbers checks the attributes of a QP that Path moved to RTS. A field of 0 means its
// default, None means zero.
func TestPathNumbers(t *testing.T) {
	host := &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: inprocess.New(inprocess.Config{}, "mlx5_0")}
	dev, err := host.Open("mlx5_0")
	if err != nil {
		t.Fatalf("host.Open: %v", err)
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatalf("dev.AllocPD: %v", err)
	}
	defer pd.Close()
	gid, err := dev.GIDFor(1, netip.Addr{})
	if err != nil {
		t.Fatalf("dev.GIDFor: %v", err)
	}
	type numbers struct{ retries, reads, served, ackTimeout, rnrTimer uint8 }
	for name, tc := range map[string]struct {
		path oob.Path
		want numbers
		bad  string
	}{
		"zero":             {oob.Path{}, numbers{6, 1, 1, 14, 12}, ""},
		"None":             {oob.Path{RetryCount: oob.None, RdAtomic: oob.None}, numbers{0, 0, 0, 14, 12}, ""},
		"given":            {oob.Path{RetryCount: 7, RdAtomic: 4}, numbers{7, 4, 4, 14, 12}, ""},
		"timeouts":         {oob.Path{AckTimeout: time.Millisecond, MinRNRTimer: time.Second / 2}, numbers{6, 1, 1, 8, 0}, ""},
		"no timeout":       {oob.Path{AckTimeout: verbs.NoTimeout}, numbers{6, 1, 1, 0, 12}, ""},
		"long timeout":     {oob.Path{AckTimeout: 3 * time.Hour}, numbers{}, "ACK timeout of 3h0m0s"},
		"long timer":       {oob.Path{MinRNRTimer: time.Second}, numbers{}, "RNR NAK timer of 1s"},
		"too many retries": {oob.Path{RetryCount: 8}, numbers{}, "RetryCount is 8"},
		"negative retries": {oob.Path{RetryCount: -2}, numbers{}, "RetryCount is -2"},
		"too many READs":   {oob.Path{RdAtomic: 256}, numbers{}, "RdAtomic is 256"},
	} {
		t.Run(name, func(t *testing.T) {
			qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC})
			if err != nil {
				t.Fatalf("pd.CreateQP: %v", err)
			}
			defer qp.Close()
			tc.path.SGIDIndex = gid.Index
			if err := tc.path.Init(qp); err != nil {
				t.Fatalf("tc.path.Init: %v", err)
			}
			own := oob.NewAddress(qp, 0, gid.GID)
			err = tc.path.Connect(qp, own, own)
			if tc.bad != "" {
				if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), tc.bad) {
					t.Errorf("Connect() = %v, want EINVAL with %q", err, tc.bad)
				}
				return
			}
			if err != nil {
				t.Fatalf("tc.path.Connect: %v", err)
			}
			a, err := qp.Query()
			if got := (numbers{a.RetryCount, a.MaxRdAtomic, a.MaxDestRdAtomic, a.Timeout, a.MinRNRTimer}); got != tc.want || err != nil {
				t.Errorf("Query() = %+v, %v, want %+v", got, err, tc.want)
			}
		})
	}
}
