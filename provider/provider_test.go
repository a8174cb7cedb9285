// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"testing"

	"purerdma/abi"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{(LocalWrite | RemoteRead | 1<<31).String(), "LocalWrite|RemoteRead|0x80000000"},
		{Access(0).String(), "0"},
		{QPRTS.String(), "RTS"},
		{MigArmed.String(), "ARMED"},
		{QPState(9).String(), "QPState(9)"},
		{QPType(7).String(), "QPType(7)"},
		{RC.String(), "RC"},
		{(QPAttrState | QPAttrDestQPNum | QPAttrRateLimit).String(), "State|DestQPNum|RateLimit"},
		{WCWRFlushErr.String(), "work request flushed"},
		{WCStatus(99).String(), "WCStatus(99)"},
		{WCRecvWriteImm.String(), "RECV_WRITE_WITH_IMM"},
		{OpSendInv.String(), "SEND_WITH_INV"},
		{(SendSignaled | SendSolicited).String(), "Signaled|Solicited"},
		{(WCWithImm | WCGRH).String(), "GRH|WithImm"},
		{MTU1024.String(), "1024"},
		{abi.RDMA_DRIVER_MLX5.String(), "mlx5"},
		{abi.DriverID(77).String(), "driver 77"},
	} {
		if c.got != c.want {
			t.Errorf("String() = %q, want %q", c.got, c.want)
		}
	}
	if MTU4096.Bytes() != 4096 || MTU256.Bytes() != 256 || MTU(0).Bytes() != 0 || MTU(6).Bytes() != 0 {
		t.Error("MTU.Bytes() is wrong for MTU4096, MTU256 or an invalid MTU")
	}
}

func TestWCErr(t *testing.T) {
	wc := WC{ID: 5, Status: WCSuccess}
	if wc.Err() != nil {
		t.Errorf("Err() of a successful completion = %v, want nil", wc.Err())
	}
	wc = WC{ID: 5, Status: WCRetryExcErr, VendorErr: 0x81, QPNum: 17}
	var e *WCError
	if !errors.As(wc.Err(), &e) || e.Status != WCRetryExcErr {
		t.Errorf("Err() = %+v, want a WCError of WCRetryExcErr", wc.Err())
	}
	if want := "QP 0x11, work request 5: transport retry counter exceeded (vendor syndrome 0x81)"; wc.Err().Error() != want {
		t.Errorf("got  %s\nwant %s", wc.Err(), want)
	}
}

// TestModifyQuery sets every attribute that both commands carry to a distinct value, and expects it
// back. Missing and swapped attributes fail.
func TestModifyQuery(t *testing.T) {
	var k abi.UverbsQueryQPResp
	for i, b := 0, abi.Bytes(&k); i < len(b); i++ {
		b[i] = byte(i + 1)
	}
	for _, d := range []*abi.UverbsQPDest{&k.Dest, &k.AltDest} {
		d.IsGlobal, d.Reserved = 1, 0
	}
	k.SQDraining = 1
	attr := AttrFromQuery(&k)
	attr.EnSQDAsyncNotify = true
	mask := QPAttrState | QPAttrAV | QPAttrAltPath
	got := ModifyCommand(99, &attr, mask)
	want := abi.UverbsModifyQP{
		Dest: k.Dest, AltDest: k.AltDest, QPHandle: 99, AttrMask: uint32(mask), QKey: k.QKey, RQPSN: k.RQPSN, SQPSN: k.SQPSN,
		DestQPNum: k.DestQPNum, QPAccessFlags: k.QPAccessFlags, PKeyIndex: k.PKeyIndex, AltPKeyIndex: k.AltPKeyIndex,
		QPState: k.QPState, CurQPState: k.CurQPState, PathMTU: k.PathMTU, PathMigState: k.PathMigState, EnSQDAsyncNotify: 1,
		MaxRdAtomic: k.MaxRdAtomic, MaxDestRdAtomic: k.MaxDestRdAtomic, MinRNRTimer: k.MinRNRTimer, PortNum: k.PortNum,
		Timeout: k.Timeout, RetryCnt: k.RetryCnt, RNRRetry: k.RNRRetry, AltPortNum: k.AltPortNum, AltTimeout: k.AltTimeout,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if attr.Cap.SendWR != int(k.MaxSendWR) || attr.Cap.RecvWR != int(k.MaxRecvWR) || attr.Cap.SendSGE != int(k.MaxSendSGE) ||
		attr.Cap.RecvSGE != int(k.MaxRecvSGE) || attr.Cap.Inline != int(k.MaxInlineData) || !attr.SQDraining {
		t.Errorf("Cap, SQDraining = %+v, %v, want the kernel's values %+v, true", attr.Cap, attr.SQDraining, k)
	}
}

// TestAttrFromKernel does the same with the connection manager's struct. ModifyCommand carries all
// of its fields except the size of the queues.
func TestAttrFromKernel(t *testing.T) {
	var k abi.UverbsQPAttr
	for i, b := 0, abi.Bytes(&k); i < len(b); i++ {
		b[i] = byte(i + 1)
	}
	// Fields that are narrower in Go, flags, and padding.
	k.QPState, k.CurQPState, k.PathMTU, k.PathMigState = 3, 2, 5, 1
	k.EnSQDAsyncNotify, k.SQDraining, k.AHAttr.IsGlobal, k.AltAHAttr.IsGlobal = 1, 1, 1, 1
	for _, a := range []*abi.UverbsAHAttr{&k.AHAttr, &k.AltAHAttr} {
		a.Reserved, a.GRH.Reserved = 0, 0
	}
	k.QPAttrMask |= uint32(QPAttrAV | QPAttrAltPath)
	var attr QPAttr
	mask := AttrFromKernel(&attr, &k)
	if uint32(mask) != k.QPAttrMask {
		t.Errorf("mask %#x, want %#x", mask, k.QPAttrMask)
	}
	got := ModifyCommand(99, &attr, mask)
	want := abi.UverbsModifyQP{
		Dest: dest(&k.AHAttr), AltDest: dest(&k.AltAHAttr), QPHandle: 99, AttrMask: k.QPAttrMask, QKey: k.QKey, RQPSN: k.RQPSN, SQPSN: k.SQPSN,
		DestQPNum: k.DestQPNum, QPAccessFlags: k.QPAccessFlags, PKeyIndex: k.PKeyIndex, AltPKeyIndex: k.AltPKeyIndex,
		QPState: 3, CurQPState: 2, PathMTU: 5, PathMigState: 1, EnSQDAsyncNotify: 1,
		MaxRdAtomic: k.MaxRdAtomic, MaxDestRdAtomic: k.MaxDestRdAtomic, MinRNRTimer: k.MinRNRTimer, PortNum: k.PortNum,
		Timeout: k.Timeout, RetryCnt: k.RetryCnt, RNRRetry: k.RNRRetry, AltPortNum: k.AltPortNum, AltTimeout: k.AltTimeout,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if back := AHAttrToKernel(&attr.AH); back != k.AHAttr {
		t.Errorf("got  %+v\nwant %+v", back, k.AHAttr)
	}
	if attr.Cap.SendWR != int(k.MaxSendWR) || attr.Cap.RecvWR != int(k.MaxRecvWR) || attr.Cap.SendSGE != int(k.MaxSendSGE) ||
		attr.Cap.RecvSGE != int(k.MaxRecvSGE) || attr.Cap.Inline != int(k.MaxInlineData) || !attr.SQDraining {
		t.Errorf("Cap, SQDraining = %+v, %v, want the kernel's values %+v, true", attr.Cap, attr.SQDraining, k)
	}
}

// dest writes an address in the form of a modify command.
func dest(a *abi.UverbsAHAttr) abi.UverbsQPDest {
	return abi.UverbsQPDest{
		DGID: a.GRH.DGID, FlowLabel: a.GRH.FlowLabel, DLID: a.DLID, SGIDIndex: a.GRH.SGIDIndex, HopLimit: a.GRH.HopLimit,
		TrafficClass: a.GRH.TrafficClass, SL: a.SL, SrcPathBits: a.SrcPathBits, StaticRate: a.StaticRate, IsGlobal: a.IsGlobal, PortNum: a.PortNum,
	}
}
