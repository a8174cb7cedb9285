// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/ucma"
)

func TestInfoMisused(t *testing.T) {
	ctx := context.Background()
	to, on := AddrInfo{DstAddr: mustAddr("10.8.0.1:1")}, AddrInfo{Flags: AddrInfoPassive, SrcAddr: mustAddr("10.8.0.1:1")}
	_, none := new(Dialer).ResolveInfo(ctx)
	_, passive := new(Dialer).ResolveInfo(ctx, on)
	_, passiveDial := new(Dialer).DialInfo(ctx, on)
	_, active := new(ListenConfig).ListenInfo(to)
	for _, tc := range []struct{ err, want error }{{none, errNoInfo}, {passive, errPassive}, {passiveDial, errPassive}, {active, errActive}} {
		var op *OpError
		if !errors.Is(tc.err, tc.want) || !errors.As(tc.err, &op) {
			t.Errorf("%v, want %v", tc.err, tc.want)
		}
	}
}

// TestFirstOf: each is tried until one succeeds, or there is no time left.
func TestFirstOf(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := []error{errors.New("first"), errors.New("second"), errors.New("third")}
	infos := []AddrInfo{{Family: 0}, {Family: 1}, {Family: 2}}
	for _, tc := range []struct {
		good   int // which succeeds
		cancel int // when the context ends
		tried  int
		err    error
	}{{0, 9, 1, nil}, {2, 9, 3, nil}, {9, 9, 3, failed[0]}, {9, 1, 2, failed[0]}} {
		tried := 0
		got, err := firstOf(ctx, infos, func(_ context.Context, info *AddrInfo) (*AddrInfo, error) {
			tried++
			if int(info.Family) == tc.cancel {
				cancel()
			}
			if int(info.Family) == tc.good {
				return info, nil
			}
			return nil, failed[info.Family]
		})
		if tried != tc.tried || err != tc.err || tc.err == nil && int(got.Family) != tc.good {
			t.Errorf("%+v: %d tried, %+v, %v", tc, tried, got, err)
		}
	}
}

// TestInfoRoute: a route that comes with the address is set, not asked for. No
// driver here has one: the kernel is a fake.
func TestInfoRoute(t *testing.T) {
	h := &hooked{fakeKernel: newFakeKernel()}
	h.device = true
	ch := newEventChannel(ucma.New(h), fakeHost())
	defer ch.Close()
	id := newFakeID(t, ch)
	var commands []uint32
	h.write = func(b []byte) {
		cmd := binary.NativeEndian.Uint32(b)
		commands = append(commands, cmd)
		switch cmd {
		case abi.RDMA_USER_CM_CMD_RESOLVE_ADDR:
			h.queue(id.kid, EventAddrResolved, 0)
		case abi.RDMA_USER_CM_CMD_SET_OPTION:
			h.queue(id.kid, EventRouteResolved, 0)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	info := &AddrInfo{DstAddr: mustAddr("10.0.0.1:1"), SrcAddr: mustAddr("10.0.0.2:0"), Route: []Path{{Flags: PathGMP | PathPrimary | PathBidirectional}}}
	if err := new(Dialer).resolve(ctx, id, info); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range commands {
		if cmd == abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE {
			t.Error("the route was asked for")
		}
	}
	if commands[0] != abi.RDMA_USER_CM_CMD_RESOLVE_ADDR || commands[len(commands)-1] != abi.RDMA_USER_CM_CMD_SET_OPTION {
		t.Errorf("commands %v", commands)
	}
}
