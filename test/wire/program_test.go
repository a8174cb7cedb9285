// SPDX-License-Identifier: Apache-2.0

//go:build linux

package wire

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"purerdma/abi"
	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/provider"
	"purerdma/uverbs"
	"purerdma/verbs"
)

// program runs the operations of a program of rdma-core with this module.
func program(name string) error {
	if name == "gid" {
		return gidAddresses()
	}
	ends, err := vmtest.Ends()
	if err != nil {
		return err
	}
	infos, err := uverbs.System{}.Devices()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(infos, func(d uverbs.DeviceInfo) bool { return d.Name == ends[0].Device })
	if i < 0 {
		return fmt.Errorf("%s is not among %v", ends[0].Device, infos)
	}
	f, err := uverbs.Open(uverbs.System{}, infos[i])
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.GetContext(uverbs.Driver{}); err != nil {
		return err
	}
	switch name {
	case "devinfo":
		return devinfo(f)
	case "rc":
		return pingpong(f, abi.IB_UVERBS_QPT_RC, false)
	case "ud":
		return pingpong(f, abi.IB_UVERBS_QPT_UD, false)
	case "srq":
		return pingpong(f, abi.IB_UVERBS_QPT_RC, true)
	}
	return errors.New("no program " + name)
}

// Addresses for ucmatose -f gid, of a fabric that does not exist here.
const (
	gidServer = "fe80::2:c903:0:1"
	gidClient = "fe80::2:c903:0:2"
	gidPort   = 7471

	gidClientScope = 3
)

// gidAddresses runs the server and the client of ucmatose -f gid, until the kernel rejects
// them.
func gidAddresses() error {
	ch, err := cm.NewEventChannel(nil)
	if err != nil {
		return err
	}
	defer ch.Close()
	gid := func(s string, port uint16) cm.Addr {
		return cm.AddrFromGID(verbs.GID(netip.MustParseAddr(s).As16()), cm.PortSpaceTCP, port)
	}
	bind, err := ch.NewID(cm.IDConfig{})
	if err != nil {
		return err
	}
	if err := bind.Bind(gid(gidServer, gidPort)); err == nil {
		return errors.New("Bind of a missing GID = nil error")
	}
	src := gid(gidClient, 0)
	src.IB.ScopeID = gidClientScope
	resolve, err := ch.NewID(cm.IDConfig{})
	if err != nil {
		return err
	}
	if err := resolve.ResolveAddr(src, gid(gidServer, gidPort), 2*time.Second); err == nil {
		return errors.New("Resolve of a missing GID = nil error")
	}
	return nil
}

// devinfo runs the operations of ibv_devinfo -v.
func devinfo(f *uverbs.File) error {
	if _, err := f.QueryDevice(); err != nil {
		return err
	}
	if _, err := f.QueryDeviceEx(uverbs.Driver{}); err != nil {
		return err
	}
	if _, err := f.QueryPort(1); err != nil {
		return err
	}
	_, err := f.QueryGIDEntry(1, 0)
	return err
}

// steps runs functions until one fails.
func steps(list ...func() error) error {
	for i, s := range list {
		if err := s(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// pingpong creates the objects of ibv_rc_pingpong -e, ibv_ud_pingpong -e and ibv_srq_pingpong
// -e with the values of these programs. The QP is connected to itself.
func pingpong(f *uverbs.File, typ uint8, shared bool) error {
	gids, err := f.QueryGIDTable(256)
	if err != nil {
		return err
	}
	var gid abi.UverbsGIDEntry
	for _, g := range gids {
		if g.GIDType == abi.IB_UVERBS_GID_TYPE_ROCE_V2 && netip.AddrFrom16(g.GID).Is4In6() {
			gid = g
		}
	}
	mem, err := syscall.Mmap(-1, 0, 8192, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return err
	}
	defer syscall.Munmap(mem)
	size, entries := 4096, uint32(501)
	switch {
	case typ == abi.IB_UVERBS_QPT_UD:
		size = 1024 + 40 // global route header of received messages
	case shared:
		entries = 516 // for 16 queue pairs
	}
	var (
		pd   uint32
		mr   uverbs.MR
		ch   *uverbs.CompChannel
		cq   uverbs.CQ
		srq  uverbs.SRQ
		qp   uverbs.QP
		ah   uint32
		out  = func(n int) uverbs.Driver { return uverbs.Driver{Out: make([]byte, n)} }
		none uverbs.Driver
	)
	if !shared {
		if _, err := f.QueryPort(1); err != nil {
			return err
		}
	}
	err = steps(
		func() (err error) { ch, err = f.CreateCompChannel(); return err },
		func() (err error) { pd, err = f.AllocPD(none); return err },
		func() (err error) {
			mr, err = f.RegMR(pd, mem[:size], 0, abi.IB_UVERBS_ACCESS_LOCAL_WRITE, none)
			return err
		},
		func() (err error) {
			cq, err = f.CreateCQ(uverbs.CQConfig{Entries: entries, Channel: ch}, out(16))
			return err
		},
		func() (err error) {
			if shared {
				srq, err = f.CreateSRQ(uverbs.SRQConfig{PD: pd, MaxWR: 500, MaxSGE: 1}, out(24))
			}
			return err
		},
		func() (err error) {
			cfg := uverbs.QPConfig{Type: typ, PD: pd, SendCQ: cq.Handle, RecvCQ: cq.Handle,
				Cap: abi.UverbsQPCap{MaxSendWR: 1, MaxRecvWR: 500, MaxSendSGE: 1, MaxRecvSGE: 1}}
			if shared {
				cfg.SRQ = &srq.Handle
				cfg.Cap.MaxRecvWR, cfg.Cap.MaxRecvSGE = 0, 0
			}
			qp, err = f.CreateQP(cfg, out(32))
			return err
		},
		func() error { return transitions(f, qp, typ, gid) },
		func() error { _, err := f.QueryQP(qp.Handle, 1<<19); return err }, // IB_QP_CAP
		func() error { return f.NewNotifier(cq.Handle).Notify(false) },
		func() error { return f.NewDoorbell(qp.Handle).Ring() },
		func() (err error) {
			if typ == abi.IB_UVERBS_QPT_UD {
				ah, err = f.CreateAH(pd, abi.UverbsAHAttr{
					GRH: abi.UverbsGlobalRoute{DGID: gid.GID, SGIDIndex: uint8(gid.GIDIndex), HopLimit: 1}, IsGlobal: 1, PortNum: 1,
				}, 0, out(8))
			}
			return err
		},
		func() error { return f.DestroyQP(qp.Handle) },
		func() error {
			if shared {
				return f.DestroySRQ(srq.Handle)
			}
			return nil
		},
		func() error { return f.DestroyCQ(cq.Handle) },
		func() error {
			if typ == abi.IB_UVERBS_QPT_UD {
				return f.DestroyAH(ah)
			}
			return nil
		},
		func() error { return f.DeregMR(mr.Handle) },
		func() error { return f.DeallocPD(pd) },
	)
	return errors.Join(err, ch.Close())
}

// transitions moves a QP to RTS like these programs.
func transitions(f *uverbs.File, qp uverbs.QP, typ uint8, gid abi.UverbsGIDEntry) error {
	modify := func(a provider.QPAttr, mask provider.QPAttrMask) error {
		cmd := provider.ModifyCommand(qp.Handle, &a, mask)
		return f.ModifyQP(&cmd)
	}
	const state = provider.QPAttrState
	if typ == abi.IB_UVERBS_QPT_UD {
		return errors.Join(
			modify(provider.QPAttr{State: provider.QPInit, Port: 1, QKey: 0x11111111}, state|provider.QPAttrPKeyIndex|provider.QPAttrPort|provider.QPAttrQKey),
			modify(provider.QPAttr{State: provider.QPRTR}, state),
			modify(provider.QPAttr{State: provider.QPRTS}, state|provider.QPAttrSQPSN))
	}
	return errors.Join(
		modify(provider.QPAttr{State: provider.QPInit, Port: 1}, state|provider.QPAttrPKeyIndex|provider.QPAttrPort|provider.QPAttrAccess),
		modify(provider.QPAttr{
			State: provider.QPRTR, PathMTU: provider.MTU1024, DestQPNum: qp.Num, MaxDestRdAtomic: 1, MinRNRTimer: 12,
			AH: provider.AHAttr{Global: true, Port: 1, GRH: provider.GlobalRoute{DGID: gid.GID, SGIDIndex: uint8(gid.GIDIndex), HopLimit: 1}},
		}, state|provider.QPAttrAV|provider.QPAttrPathMTU|provider.QPAttrDestQPNum|provider.QPAttrRQPSN|provider.QPAttrMaxDestRdAtomic|provider.QPAttrMinRNRTimer),
		modify(provider.QPAttr{State: provider.QPRTS, Timeout: 14, RetryCount: 7, RNRRetryCount: 7, MaxRdAtomic: 1},
			state|provider.QPAttrTimeout|provider.QPAttrRetryCount|provider.QPAttrRNRRetryCount|provider.QPAttrSQPSN|provider.QPAttrMaxRdAtomic))
}

// programVar has the name of a program in the environment, which the test program then runs instead of the tests.
const programVar = "WIRE_PROGRAM"
