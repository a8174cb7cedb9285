// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"errors"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/uverbs"
)

// TestOpenRefused checks the errors of kernel responses that this package does not support.
func TestOpenRefused(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		change     func(*abi.Mlx5AllocUcontextResp)
	}{
		{"CQEVersion0", "completions are of version 0, not 1", func(r *abi.Mlx5AllocUcontextResp) { r.CQEVersion = 0 }},
		{"CQEVersion2", "completions are of version 2, not 1", func(r *abi.Mlx5AllocUcontextResp) { r.CQEVersion = 2 }},
		{"NoPorts", "without ports", func(r *abi.Mlx5AllocUcontextResp) { r.NumPorts = 0 }},
		{"OddBlueFlame", "BlueFlame registers of 384 bytes", func(r *abi.Mlx5AllocUcontextResp) { r.BFRegSize = 384 }},
		{"SmallBlueFlame", "BlueFlame registers of 64 bytes", func(r *abi.Mlx5AllocUcontextResp) { r.BFRegSize = 64 }},
		{"LargeBlueFlame", "BlueFlame registers of 1024 bytes", func(r *abi.Mlx5AllocUcontextResp) { r.BFRegSize = 1024 }},
		{"NoCacheLine", "cache lines of 0 bytes", func(r *abi.Mlx5AllocUcontextResp) { r.CacheLineSize = 0 }},
		{"OddCacheLine", "cache lines of 96 bytes", func(r *abi.Mlx5AllocUcontextResp) { r.CacheLineSize = 96 }},
		{"HugeCacheLine", "cache lines of 1048576 bytes", func(r *abi.Mlx5AllocUcontextResp) { r.CacheLineSize = 1 << 20 }},
		{"NoSendQueue", "work queues of 0 blocks", func(r *abi.Mlx5AllocUcontextResp) { r.MaxSendWQEBB = 0 }},
		{"NoSendWQE", "entries of 0 and", func(r *abi.Mlx5AllocUcontextResp) { r.MaxSQDescSz = 0 }},
		{"NoRecvWQE", "and 0 bytes", func(r *abi.Mlx5AllocUcontextResp) { r.MaxRQDescSz = 0 }},
		{"NoReceives", "and 0 receives", func(r *abi.Mlx5AllocUcontextResp) { r.MaxRecvWR = 0 }},
		{"ManyUARs", "1000 UARs in a page", func(r *abi.Mlx5AllocUcontextResp) { r.LogUARSize, r.NumUARsPerPage = 12, 1000 }},
		{"NoUARs", "0 UARs in a page", func(r *abi.Mlx5AllocUcontextResp) { r.LogUARSize, r.NumUARsPerPage = 12, 0 }},
		{"OddRegisters", "17 BlueFlame registers", func(r *abi.Mlx5AllocUcontextResp) { r.TotBFRegs = 17 }},
		{"FewRegisters", "4 BlueFlame registers", func(r *abi.Mlx5AllocUcontextResp) { r.TotBFRegs = 4 }},
		{"ManyRegisters", "BlueFlame registers", func(r *abi.Mlx5AllocUcontextResp) { r.TotBFRegs = 1 << 31 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := mlx5test.New("mlx5_0")
			k.Context = func(_ *abi.Mlx5AllocUcontextReqV2, resp *abi.Mlx5AllocUcontextResp) { tc.change(resp) }
			_, err := openContext(t, k)
			var u *UnsupportedError
			if !errors.As(err, &u) || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want an *UnsupportedError with %q", err, tc.want)
			}
			if n := k.Opened(); n != 0 {
				t.Errorf("Opened() = %d, want 0", n)
			}
		})
	}
}

// TestOpenUnordered checks that a build that cannot order its stores for a device is refused
// before any command.
func TestOpenUnordered(t *testing.T) {
	k := mlx5test.New("mlx5_0")
	infos, err := k.Devices()
	if err != nil {
		t.Fatalf("Kernel.Devices: %v", err)
	}
	f, err := uverbs.Open(k, infos[0])
	if err != nil {
		t.Fatalf("uverbs.Open: %v", err)
	}
	defer f.Close()
	asked := false
	k.Context = func(*abi.Mlx5AllocUcontextReqV2, *abi.Mlx5AllocUcontextResp) { asked = true }
	_, err = Driver{}.open(f, false)
	var u *UnsupportedError
	if !errors.As(err, &u) || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), runtime.GOARCH) {
		t.Errorf("Open = %v, want an *UnsupportedError with %s", err, runtime.GOARCH)
	}
	if asked {
		t.Error("Open created a context")
	}
}

// TestOpenFails lets each command of opening fail. Open must return the error, and leave no
// objects behind.
func TestOpenFails(t *testing.T) {
	var all int
	for fail := 0; ; fail++ {
		k := mlx5test.New("mlx5_0")
		n := 0
		k.Intercept = func(*uverbs.Request) error {
			n++
			if n == fail {
				return syscall.ENOMEM
			}
			return nil
		}
		_, err := openContext(t, k)
		if fail == 0 {
			if all = n; err != nil || all < 3 {
				t.Fatalf("Open = %v with %d commands, want nil with at least 3", err, all)
			}
			continue
		}
		if fail > all {
			break
		}
		if !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("Open with the failed command %d = %v, want ENOMEM", fail, err)
		}
	}
}

// TestRequest checks the request for a context. The numbers are from get_total_uuars and
// get_num_low_lat_uuars of libmlx5.
func TestRequest(t *testing.T) {
	k := mlx5test.New("mlx5_0")
	var got abi.Mlx5AllocUcontextReqV2
	k.Context = func(req *abi.Mlx5AllocUcontextReqV2, _ *abi.Mlx5AllocUcontextResp) { got = *req }
	c, err := openContext(t, k)
	if err != nil {
		t.Fatalf("openContext: %v", err)
	}
	want := abi.Mlx5AllocUcontextReqV2{TotalNumBFRegs: 16, NumLowLatencyBFRegs: 4, MaxCQEVersion: 1, LibCaps: 3}
	if c.pageSize != 4096 {
		want.TotalNumBFRegs = uint32(totalBFRegs(c.pageSize))
		want.NumLowLatencyBFRegs = want.TotalNumBFRegs - 12
	}
	if got != want {
		t.Errorf("GET_CONTEXT = %+v, want %+v", got, want)
	}
}
